"""The fence of a delivery is higher than all earlier fences, for any step of the server's clock."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import enqueue, leases, record_header
from lockwork.protocol.queue.enqueue import NewJob
from lockwork.protocol.queue.leases import Leased, Outcome
from models.bench import SECOND, Bench
from simulator.server import Build, Server

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


def test_clock_step_back_lowers_no_fence(bench: Bench) -> None:
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


def test_fences_rise_when_a_request_arrived_twice(bench: Bench) -> None:
    """A late first attempt leases more jobs; the reply to the next attempt has the highest fence."""
    for number in range(10):
        session, request = f"host/2/{number}", "r" * 70  # a token of this length makes the hash unordered
        bench.run(leases.beat(QUEUE, {session: True}, 10**9, 1.0))
        tries = list[Leased]()
        for count in (50, 1):
            new = [NewJob(f"{count} {number} {job}", record_header.head(0, 9) + b"body") for job in range(count)]
            bench.run(enqueue.push(QUEUE, new))
            tries += bench.run(leases.reserve(QUEUE, session, 50, request, "")).jobs
            bench.now += SECOND
        batch = bench.run(leases.reserve(QUEUE, session, 100, request, ""), again=True)
        assert {job.id for job in batch.jobs} == {job.id for job in tries}
        assert batch.fence == max(job.fence for job in tries)
