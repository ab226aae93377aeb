"""The fence of a delivery is higher than that of any before it, whatever the server's clock does."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queues import enqueue, leases, record_header
from lockwork.protocol.queues.enqueue import NewJob
from lockwork.protocol.queues.leases import Leased, Outcome
from model.bench import SECOND, Bench
from simulation.server import Build, Server

QUEUE = QueueKeys("sim", "q")
SESSION = "host/1/a"


@pytest.fixture
def bench(url: str) -> Iterator[Bench]:
    server = Server(url)
    bench = Bench(server, Build())
    bench.run(leases.beat(QUEUE, {SESSION: True}, 10**9, 1.0))
    bench.run(enqueue.push(QUEUE, [NewJob("j", record_header.head(1, 9) + b"body")]))
    yield bench
    server.close()


def _lease(bench: Bench, request: str, *, again: bool = False) -> Leased:
    (job,) = bench.run(leases.reserve(QUEUE, SESSION, 1, request, ""), again=again).jobs
    return job


def test_a_clock_that_was_set_back_lowers_no_fence(bench: Bench) -> None:
    seen = []
    for delivery in range(4):
        job = _lease(bench, f"r{delivery}")
        seen.append(job.fence)
        bench.run(leases.settle(QUEUE, SESSION, [Outcome(job.id, job.token, "g")], 60_000))
        bench.now -= 3600 * SECOND if delivery < 2 else 0
    assert seen == sorted(set(seen))


def test_resent_delivery_keeps_its_fence(bench: Bench) -> None:
    first = _lease(bench, "r0")
    bench.now += SECOND
    assert _lease(bench, "r0", again=True) == first
