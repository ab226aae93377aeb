"""Sessions of stopping workers: if their leases expire, their jobs return uncounted."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lockwork.protocol.effects import Call
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import enqueue, leases, record_header, sessions
from lockwork.protocol.queue import status as queue_status
from lockwork.protocol.queue.enqueue import NewJob
from models.bench import SECOND, Bench
from simulator.server import Build, Server

QUEUE = QueueKeys("sim", "q")
ANN, BOB = "host/1/a", "host/2/b"
LEASE_MS = 5000
WINDOW_MS = 60_000


@pytest.fixture
def bench(url: str) -> Iterator[Bench]:
    server = Server(url)
    bench = Bench(server, Build())
    bench.run(leases.beat(QUEUE, {ANN: True}, LEASE_MS, 1.0))
    bench.run(leases.beat(QUEUE, {BOB: True}, LEASE_MS, 1.0))
    yield bench
    server.close()


def _lease(bench: Bench, *jobs: NewJob) -> list[leases.Leased]:
    """Lease jobs to Ann, whose worker then receives a stop."""
    bench.run(enqueue.push(QUEUE, jobs))
    leased: list[leases.Leased] = []
    while len(leased) < len(jobs):
        leased += bench.run(leases.reserve(QUEUE, ANN, 1000, f"r{len(leased)}", "")).jobs
    assert bench.run(leases.beat(QUEUE, {ANN: False}, LEASE_MS, 1.0, stopping=True)).alive == {ANN: True}
    return leased


def _overdue(bench: Bench) -> leases.Beat:
    """Let Ann's lease expire, and Bob's worker report it."""
    bench.now += LEASE_MS * 1000 + SECOND
    found = bench.run(leases.beat(QUEUE, {BOB: False}, LEASE_MS, 1.0))
    assert found.overdue == ANN
    return found


def _job(id: str, deliveries: int = 0) -> NewJob:
    return NewJob(id, record_header.head(1, 1, deliveries=deliveries) + b"body")


def test_jobs_of_killed_stopping_worker_return_uncounted(bench: Bench) -> None:
    for _ in range(record_header.MAX_CRASHES + 1):
        bench.run(leases.beat(QUEUE, {ANN: True}, LEASE_MS, 1.0))
        (job,) = _lease(bench, _job("j"))
        assert job.attempt == 1
        found = _overdue(bench)
        assert bench.run(leases.recover(QUEUE, ANN, WINDOW_MS, gone=False, ended=found.ended)) == 1
    assert not bench.scores(QUEUE.dead)
    assert bench.run(queue_status.status(QUEUE))[0].recovered == 0


def test_cap_of_deliveries_counts_start_in_stopping_worker(bench: Bench) -> None:
    _lease(bench, _job("j", deliveries=1))
    found = _overdue(bench)
    assert bench.run(leases.recover(QUEUE, ANN, WINDOW_MS, gone=False, ended=found.ended)) == 0
    assert [*bench.scores(QUEUE.dead)] == ["j"]


def test_crash_seen_by_own_supervisor_counts_in_stopping_worker(bench: Bench) -> None:
    _lease(bench, _job("j"))
    assert bench.run(leases.recover(QUEUE, ANN, WINDOW_MS, gone=True)) == 1
    (again,) = bench.run(leases.reserve(QUEUE, BOB, 1, "again", "")).jobs
    assert (again.attempt, again.crashes) == (2, 1)


def test_stopping_session_keeps_its_lease_and_its_deadline(bench: Bench) -> None:
    (job,) = _lease(bench, _job("j"))
    _, workers = bench.run(queue_status.status(QUEUE))
    assert {worker.session for worker in workers} == {ANN, BOB}
    assert bench.run(sessions.queue_head(QUEUE)).lease_left == LEASE_MS / 1000
    settled = leases.settle(QUEUE, ANN, [leases.Outcome("j", job.token, "s", b"1")], WINDOW_MS)
    assert bench.run(settled) == [True]


def test_large_stopping_session_stays_uncounted_when_its_recoverer_dies(bench: Bench) -> None:
    """The second call comes from another worker, which reads the stop from the session's mark."""
    count = 1300
    _lease(bench, *(_job(f"j{at:04}") for at in range(count)))
    found = _overdue(bench)
    recovery = leases.recover(QUEUE, ANN, WINDOW_MS, gone=False, ended=found.ended)
    first = next(recovery)
    assert isinstance(first, Call)
    _, left, *_ = bench.call(first)
    assert left
    recovery.close()
    assert {worker.session for worker in bench.run(queue_status.status(QUEUE))[1]} == {BOB}
    found = bench.run(leases.beat(QUEUE, {BOB: False}, LEASE_MS, 1.0))
    assert found.overdue == ANN
    assert bench.run(leases.beat(QUEUE, {ANN: False}, LEASE_MS, 1.0, stopping=True)).alive == {ANN: False}
    with pytest.raises(leases.SessionOver):
        bench.run(leases.reserve(QUEUE, ANN, 1, "late", ""))
    bench.run(leases.recover(QUEUE, ANN, WINDOW_MS, gone=False, ended=found.ended))
    status = bench.run(queue_status.status(QUEUE))[0]
    assert (status.ready, status.running, status.recovered) == (count, 0, 0)
    assert not bench.hash(QUEUE.tries)
