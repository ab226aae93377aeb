"""Worker sessions during steps of the server's clock."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import enqueue, leases, sessions
from lockwork.protocol.queue import record_header as queue_heads
from lockwork.protocol.queue import status as queue_status
from lockwork.protocol.queue.enqueue import NewJob
from models.bench import SECOND, Bench
from simulator.server import Build, Server

QUEUE = QueueKeys("sim", "q")
ANN, BOB = "host/1/a", "host/2/b"
LEASE_MS = 5000


@pytest.fixture
def bench(url: str) -> Iterator[Bench]:
    """Two sessions; Ann has a job that may be delivered once."""
    server = Server(url)
    bench = Bench(server, Build())
    bench.run(enqueue.push(QUEUE, [NewJob("j", queue_heads.head(1, 1) + b"body")]))
    bench.run(leases.beat(QUEUE, {ANN: True}, LEASE_MS, 1.0))
    bench.run(leases.beat(QUEUE, {BOB: True}, LEASE_MS, 1.0))
    assert len(bench.run(leases.reserve(QUEUE, ANN, 1, "r", "")).jobs) == 1
    yield bench
    server.close()


def test_session_with_recent_heartbeat_survives_clock_step_forward(bench: Bench) -> None:
    """A heartbeat is delayed between the call that reports the expired session and the call that recovers it."""
    bench.now += LEASE_MS * 1000 + SECOND
    found = bench.run(leases.beat(QUEUE, {BOB: False}, LEASE_MS, 1.0))
    assert found.overdue == ANN
    bench.run(leases.beat(QUEUE, {ANN: False}, LEASE_MS, 1.0))
    bench.now += 3600 * SECOND
    assert bench.run(leases.recover(QUEUE, ANN, 60_000, gone=False, ended=found.ended)) == 0
    assert bench.run(queue_status.status(QUEUE))[0].running == 1


def test_dead_session_is_overdue_after_its_lease_despite_clock_step_back(bench: Bench) -> None:
    for _ in range(3):
        bench.now -= 3600 * SECOND
        bench.run(leases.beat(QUEUE, {BOB: False}, LEASE_MS, 1.0))
    _, workers = bench.run(queue_status.status(QUEUE))
    assert all(worker.expires_in <= LEASE_MS / 1000 for worker in workers)
    left = bench.run(sessions.queue_head(QUEUE)).lease_left
    assert left is not None
    assert left <= LEASE_MS / 1000
    bench.now += LEASE_MS * 1000
    assert bench.run(leases.beat(QUEUE, {BOB: False}, LEASE_MS, 1.0)).overdue == ANN
