"""Failures do not count as crashes of a job."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import enqueue, leases, record_header
from lockwork.protocol.queue.enqueue import NewJob
from lockwork.protocol.queue.leases import Leased, Outcome
from models.bench import Bench
from simulator.server import Build, Server

QUEUE = QueueKeys("sim", "q")
SESSION = "host/1/crashes"
WINDOW_MS = 600_000


@pytest.fixture
def bench(url: str) -> Iterator[Bench]:
    server = Server(url)
    yield Bench(server, Build())
    server.close()


def _leased(bench: Bench, at: int) -> Leased:
    bench.run(leases.beat(QUEUE, {SESSION: True}, 60_000, 1.0))
    (job,) = bench.run(leases.reserve(QUEUE, SESSION, 1, f"r{at}", "")).jobs
    return job


def test_failures_do_not_count_as_crashes(bench: Bench) -> None:
    bench.run(enqueue.push(QUEUE, [NewJob("j", record_header.head(1, 9) + b"body")]))
    for at in range(2):
        job = _leased(bench, at)
        bench.run(leases.settle(QUEUE, SESSION, [Outcome("j", job.token, "r", b"{}")], WINDOW_MS))
    given = []
    for at in range(record_header.MAX_CRASHES):
        _leased(bench, 2 + at)
        given.append(bench.run(leases.recover(QUEUE, SESSION, WINDOW_MS, gone=True)))
    assert given == [1] * (record_header.MAX_CRASHES - 1) + [0]
    assert [*bench.scores(QUEUE.dead)] == ["j"]
