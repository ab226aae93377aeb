"""The audit finds every kind of broken promise in doctored evidence, and nothing in evidence that is sound."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lockwork.protocol.queue.status import QueueStatus
from lockwork.protocol.stock.stock import StockStatus
from play.audit import AuditResult, audit
from play.evidence import Delivery, Evidence, KilledWorker, LedgerEntry, Reported

ANN = [LedgerEntry("r1", "placed", "ann"), LedgerEntry("r1", "paid")]
BOB = [LedgerEntry("r2", "placed", "bob"), LedgerEntry("r2", "expired")]
EVE = [LedgerEntry("r3", "placed", "eve"), LedgerEntry("r3", "paid")]
TOLD = [
    Reported("reserved", "ann", "r1"),
    Reported("paid", "ann", "r1"),
    Reported("reserved", "bob", "r2"),
    Reported("reserved", "eve", "r3"),
    Reported("paid", "eve", "r3"),
]
DELIVERIES = [
    Delivery("j1", 1, 10, "r1", "placed"),
    Delivery("j2", 1, 10, "r1", "paid"),
    Delivery("j3", 1, 10, "r2", "placed"),
    Delivery("j3", 2, 11, "r2", "placed"),
    Delivery("j4", 1, 11, "r2", "expired"),
    Delivery("j5", 1, 11, "r3", "placed"),
    Delivery("j6", 1, 11, "r3", "paid"),
]
JOBS = QueueStatus(ready=0, scheduled=0, running=0, dead=0, enqueued=9, succeeded=9, failed=0, retried=0, recovered=2)
SOUND = Evidence(
    stock=2,
    told=TOLD,
    entries=[*ANN, *BOB, *EVE],
    deliveries=DELIVERIES,
    books=StockStatus(total=2, available=0, reserved=0, sold=2, expired=1),
    queue=JOBS,
    victims=[KilledWorker(10, 2)],
)


def counts(verdict: AuditResult) -> dict[str, int]:
    return {kind: verdict.count(kind) for kind in ("oversold", "lost", "duplicates") if verdict.count(kind)}


def test_audit_of_a_correct_sale_has_no_findings() -> None:
    assert audit(SOUND) == AuditResult(sold=2, expired=1, settled=3, repeated=1, findings=[])


@pytest.mark.parametrize(
    ("doctored", "expected"),
    [
        pytest.param(replace(SOUND, stock=1), {"oversold": 1, "lost": 1}, id="more sold than there were"),
        pytest.param(
            replace(SOUND, told=[*TOLD, Reported("paid", "zoe", "r4")]),
            {"oversold": 1, "lost": 1},
            id="sold off the books",
        ),
        pytest.param(
            replace(SOUND, books=replace(SOUND.books, sold=3)), {"oversold": 1, "lost": 2}, id="the stock sold too many"
        ),
        pytest.param(replace(SOUND, entries=[*ANN, *BOB]), {"lost": 2}, id="a paid order is not in the ledger"),
        pytest.param(replace(SOUND, entries=[*ANN, *EVE, BOB[0]]), {"lost": 2}, id="an unpaid order was never closed"),
        pytest.param(replace(SOUND, entries=[*ANN, *BOB, EVE[1]]), {"lost": 1}, id="paid, but never placed"),
        pytest.param(
            replace(SOUND, told=[*TOLD, Reported("reserved", "zoe", "r4")]),
            {"lost": 1},
            id="a promise without an order",
        ),
        pytest.param(
            replace(SOUND, told=[*TOLD, Reported("expired", "ann", "r1")]), {"lost": 1}, id="told too late, yet sold"
        ),
        pytest.param(
            replace(SOUND, entries=[*SOUND.entries, LedgerEntry("r1", "expired")]),
            {"lost": 1},
            id="paid and closed unpaid",
        ),
        pytest.param(
            replace(SOUND, books=replace(SOUND.books, reserved=1, available=-1)), {"lost": 1}, id="still reserved"
        ),
        pytest.param(
            replace(SOUND, books=replace(SOUND.books, total=3, available=1)), {"lost": 1}, id="a phone too many"
        ),
        pytest.param(replace(SOUND, queue=replace(JOBS, dead=1, succeeded=8)), {"lost": 1}, id="a job failed for good"),
        pytest.param(replace(SOUND, queue=replace(JOBS, ready=1, succeeded=8)), {"lost": 1}, id="a job never ran"),
        pytest.param(replace(SOUND, queue=replace(JOBS, succeeded=8)), {"lost": 1}, id="a job vanished"),
        pytest.param(replace(SOUND, queue=replace(JOBS, recovered=1)), {"lost": 1}, id="a job not recovered"),
        pytest.param(
            replace(SOUND, entries=[*SOUND.entries, LedgerEntry("r1", "paid")]), {"duplicates": 1}, id="a payment twice"
        ),
        pytest.param(
            replace(SOUND, entries=[LedgerEntry("r1", "placed", "eve"), ANN[1], *BOB, *EVE]),
            {"duplicates": 1},
            id="two phones for a buyer",
        ),
        pytest.param(
            replace(SOUND, deliveries=[*DELIVERIES, Delivery("j7", 1, 11, "r3", "paid")]),
            {"duplicates": 1},
            id="a payment enqueued twice",
        ),
        pytest.param(
            replace(SOUND, deliveries=[*DELIVERIES, Delivery("j6", 2, 11, "r3", "paid")]),
            {"duplicates": 1},
            id="a second delivery although the worker lives",
        ),
        pytest.param(
            replace(SOUND, deliveries=[*DELIVERIES, Delivery("j1", 1, 11, "r1", "placed")]),
            {"duplicates": 1},
            id="a second delivery of the same attempt",
        ),
        pytest.param(
            replace(SOUND, victims=[], queue=replace(JOBS, recovered=0)),
            {"duplicates": 1},
            id="a second delivery although no worker was killed",
        ),
        pytest.param(
            replace(SOUND, victims=[KilledWorker(10, 0)], queue=replace(JOBS, recovered=0)),
            {"duplicates": 1},
            id="a second delivery that was not recorded",
        ),
    ],
)
def test_broken_guarantee_is_reported(doctored: Evidence, expected: dict[str, int]) -> None:
    verdict = audit(doctored)
    assert counts(verdict) == expected
    assert all(finding.text for finding in verdict.findings)
