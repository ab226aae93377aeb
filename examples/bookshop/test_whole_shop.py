"""Tests of the bookshop as a whole, on an embedded server: retries, unique jobs, schedules and time."""

from __future__ import annotations

import pytest

import bookshop
from bookshop import Order, PaymentDown, charge, good_morning, lw, place_order, report
from lockwork.testing import LocalServer, LockworkFixture, worker

ORDER = Order(7, "ada@example.com", ["Sketches", "Notes"], 4200)


@pytest.fixture(autouse=True)
def no_mails() -> None:
    bookshop.sent.clear()


def test_order_is_paid_at_the_third_attempt(lockwork: LockworkFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def moody(_payments: object, order: int, _cents: int) -> str:
        calls.append(order)
        if len(calls) < 3:
            raise PaymentDown
        return "receipt"

    monkeypatch.setattr(bookshop.Payments, "charge", moody)
    place_order(ORDER)
    done = lockwork.run_all()  # minutes pass between the attempts, on the server's clock
    assert len(done.retried) == 2
    assert bookshop.sent == ["ada@example.com: Order 7 is paid"]
    lockwork.clock.advance("3d")
    lockwork.run_all()
    assert "ada@example.com: How are your books?" in bookshop.sent


def test_report_is_unique(lockwork: LockworkFixture) -> None:
    for _ in range(3):
        report.enqueue("2026-11-27")
    assert len(lockwork.run_all().succeeded) == 1


def test_staff_is_greeted_each_morning(lockwork_server: LocalServer, lockwork: LockworkFixture) -> None:
    lockwork_server.clock.advance("1d")
    lockwork.run_all()
    assert bookshop.sent == ["staff@bookshop.example: Good morning"]
    assert lw.schedules()[0].name == good_morning.name


@pytest.mark.usefixtures("lockwork_server")
def test_worker_runs_jobs_while_the_test_waits() -> None:
    with worker(lw):
        assert charge.enqueue(ORDER).result(timeout=10) == "receipt 7 over 4200"
