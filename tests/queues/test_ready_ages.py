"""The age of the oldest ready job, including jobs with a key or a group."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lockwork import Lockwork
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import ages, enqueue, job_control, leases, record_header
from lockwork.protocol.queue.ages import ReadyAge
from lockwork.protocol.queue.enqueue import NewJob
from lockwork.protocol.queue.leases import Leased, Outcome
from lockwork.protocol.queue.record_header import JobLimits
from models.bench import SECOND, Bench
from processes import until
from simulator.server import Build, Server

QUEUE = QueueKeys("sim", "q")
ANN, BOB = "host/1/a", "host/2/b"
WINDOW_MS = 60_000
DAY_MS = 86_400_000


@pytest.fixture
def bench(url: str) -> Iterator[Bench]:
    server = Server(url)
    bench = Bench(server, Build())
    bench.run(leases.beat(QUEUE, {ANN: True, BOB: True}, 10**9, 1.0))
    yield bench
    server.close()


def _push(
    bench: Bench, *ids: str, key: str = "", group: str = "", delay_ms: int = 0, limits: JobLimits | None = None
) -> None:
    head = record_header.head(1, 3, key, group, limits)
    bench.run(enqueue.push(QUEUE, [NewJob(id, head + b'["t"]', delay_ms) for id in ids]))


def _reserve(bench: Bench, want: int, session: str = ANN) -> list[Leased]:
    return bench.run(leases.reserve(QUEUE, session, want, f"r{bench.now}", "")).jobs


def _age(bench: Bench) -> float:
    found = bench.run(ages.ready_age(QUEUE))
    assert found.known
    return found.seconds


@pytest.mark.parametrize(("key", "group"), [("k", ""), ("", "g"), ("k", "g")])
def test_age_of_jobs_with_a_key_or_a_group(bench: Bench, key: str, group: str) -> None:
    _push(bench, *[f"j{at}" for at in range(600)], key=key, group=group, limits=JobLimits(1) if group else None)
    bench.now += 38 * SECOND
    assert _age(bench) == pytest.approx(38, abs=0.1), "no worker has fetched them"
    assert len(_reserve(bench, 1)) == 1
    bench.now += 40 * SECOND
    assert _age(bench) == pytest.approx(78, abs=0.1)


def test_job_that_gets_its_key_late_keeps_its_age(bench: Bench) -> None:
    _push(bench, "a1", "a2", key="a")
    (held,) = _reserve(bench, 5)
    bench.now += 50 * SECOND
    _push(bench, "b1", key="b")
    bench.run(leases.settle(QUEUE, ANN, [Outcome(held.id, held.token, "s", b"")], WINDOW_MS))
    bench.now += 10 * SECOND
    assert _age(bench) == pytest.approx(60, abs=0.1)
    assert [job.id for job in _reserve(bench, 1)] == ["a2"], "the oldest comes first"
    assert _age(bench) == pytest.approx(10, abs=0.1)


def test_delayed_job_waits_since_it_was_due(bench: Bench) -> None:
    _push(bench, "plain", delay_ms=DAY_MS)
    _push(bench, "k1", "k2", key="k", delay_ms=DAY_MS)
    bench.now += DAY_MS * 1000 - SECOND
    assert _age(bench) == 0
    bench.now += 6 * SECOND
    assert _age(bench) == pytest.approx(5, abs=0.1)
    assert len(_reserve(bench, 2)) == 2
    bench.now += 7 * SECOND
    assert _age(bench) == pytest.approx(12, abs=0.1)


def test_job_of_a_dead_worker_waits_since_it_died(bench: Bench) -> None:
    _push(bench, "old", group="g", limits=JobLimits(1))
    assert len(_reserve(bench, 1)) == 1
    bench.now += 100 * SECOND
    _push(bench, "new", group="g", limits=JobLimits(1))
    bench.now += 20 * SECOND
    bench.run(leases.recover(QUEUE, ANN, WINDOW_MS, gone=True))
    bench.now += 3 * SECOND
    assert _reserve(bench, 0, BOB) == []
    assert _age(bench) == pytest.approx(23, abs=0.1), "that of the job behind it"
    assert [job.id for job in _reserve(bench, 1, BOB)] == ["old"]
    bench.run(leases.beat(QUEUE, {ANN: True}, 10**9, 1.0))
    bench.run(job_control.cancel(QUEUE, "new", "sim", WINDOW_MS))
    bench.run(leases.recover(QUEUE, BOB, WINDOW_MS, gone=True))
    bench.now += 4 * SECOND
    assert _age(bench) == pytest.approx(4, abs=0.1)


def test_oldest_of_many_keys_is_found_in_steps(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ages, "_LINES", 7)
    for at in range(40):
        _push(bench, f"h{at}", f"w{at}", key=f"key{(at * 17) % 40:02}")
        if at == 0:
            bench.now += 30 * SECOND
    assert len(_reserve(bench, 40)) == 40
    assert _age(bench) == pytest.approx(30, abs=0.1)
    monkeypatch.setattr(ages, "_MOST_CALLS", 2)
    partial = bench.run(ages.ready_age(QUEUE))
    assert not partial.known
    assert 0 <= partial.seconds <= 30.1


def test_cancelled_jobs_do_not_hide_those_behind_them(bench: Bench) -> None:
    _push(bench, *[f"j{at}" for at in range(1200)])
    for at in range(1100):
        bench.run(job_control.cancel(QUEUE, f"j{at}", "sim", WINDOW_MS))
    assert bench.run(ages.ready_age(QUEUE)) == ReadyAge(0, known=False)


def test_age_without_a_time_is_none_and_its_queue_stays(lw: Lockwork) -> None:
    lw.runtime.run(enqueue.push(QueueKeys("lw", "own"), [NewJob("order-1", record_header.head(1, 1) + b'["t",[]]')]))
    keyed = lw.task(name="t", queue="keyed", key="k")(len)
    keyed.enqueue("x")
    until(lambda: (lw.queue_ages()["keyed"] or 0) > 0.2, "it grows old")
    assert lw.queue_ages()["own"] is None
