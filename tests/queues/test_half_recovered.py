"""A session with many jobs is recovered in several calls; the recovering process may die in between."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lockwork.protocol.effects import Call
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import enqueue, leases, record_header, sessions
from lockwork.protocol.queue import status as queue_status
from lockwork.protocol.queue.enqueue import NewJob
from lockwork.protocol.queue.leases import SessionOver
from models.bench import Bench
from simulator.server import Build, Server

QUEUE = QueueKeys("sim", "q")
DEAD, OTHER = "host/1/a", "host/2/b"
COUNT = 1300
MANY = 60_000
WINDOW_MS = 60_000


@pytest.fixture
def bench(url: str) -> Iterator[Bench]:
    """A dead session whose recovery stopped after its first call."""
    server = Server(url)
    bench = Bench(server, Build())
    bench.run(leases.beat(QUEUE, {DEAD: True}, 5000, 1.0))
    bench.run(enqueue.push(QUEUE, [NewJob(f"j{at:04}", record_header.head(1, 3) + b"body") for at in range(COUNT)]))
    for call in range(2):
        bench.run(leases.reserve(QUEUE, DEAD, 1000, f"r{call}", ""))
    recovery = leases.recover(QUEUE, DEAD, WINDOW_MS, gone=True)
    first = next(recovery)
    assert isinstance(first, Call)
    _, left, _ = bench.call(first)
    assert left
    recovery.close()
    yield bench
    server.close()


def test_next_heartbeat_completes_the_recovery(bench: Bench) -> None:
    status, workers = bench.run(queue_status.status(QUEUE))
    assert status.ready + status.running == COUNT
    assert not workers, "an ended session is no worker"
    assert bench.run(sessions.queue_head(QUEUE)).lease_left is None
    found = bench.run(leases.beat(QUEUE, {OTHER: True}, 5000, 1.0))
    assert found.overdue == DEAD
    bench.run(leases.recover(QUEUE, DEAD, WINDOW_MS, gone=False))
    status, workers = bench.run(queue_status.status(QUEUE))
    assert (status.ready, status.running, len(workers)) == (COUNT, 0, 1)
    assert bench.run(leases.beat(QUEUE, {OTHER: False}, 5000, 1.0)).overdue is None


def test_partly_recovered_session_cannot_continue(bench: Bench) -> None:
    assert bench.run(leases.beat(QUEUE, {DEAD: False}, 5000, 1.0)).alive == {DEAD: False}
    with pytest.raises(SessionOver):
        bench.run(leases.reserve(QUEUE, DEAD, 1, "late", ""))


@pytest.fixture
def full(url: str) -> Iterator[Bench]:
    """A session whose jobs exceed one scan."""
    server = Server(url)
    bench = Bench(server, Build())
    bench.run(leases.beat(QUEUE, {DEAD: True}, 5000, 1.0))
    bench.run(enqueue.push(QUEUE, [NewJob(f"j{at:05}", record_header.head(1, 3) + b"body") for at in range(MANY)]))
    for call in range(MANY // 1000):
        bench.run(leases.reserve(QUEUE, DEAD, 1000, f"r{call}", ""))
    yield bench
    server.close()


def test_very_large_session_is_recovered_completely(full: Bench) -> None:
    recovery, calls, moved = leases.recover(QUEUE, DEAD, WINDOW_MS, gone=True), 0, None
    effect = next(recovery)
    while moved is None:
        assert isinstance(effect, Call)
        assert calls < MANY // 100, "each call recovers some jobs"
        calls += 1
        try:
            effect = recovery.send(full.call(effect))
        except StopIteration as done:
            moved = done.value
    assert moved == MANY
    status, _ = full.run(queue_status.status(QUEUE))
    assert (status.ready, status.running) == (MANY, 0)


def test_recovery_returns_all_jobs_of_a_large_session(full: Bench) -> None:
    assert full.run(leases.recover(QUEUE, DEAD, WINDOW_MS, gone=True, counted=False)) == MANY
