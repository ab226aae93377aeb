"""Jobs whose record was deleted by hand are gone, without harm to other jobs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import enqueue, leases, record_header
from lockwork.protocol.queue import status as queue_status
from lockwork.protocol.queue.enqueue import NewJob
from lockwork.protocol.queue.leases import Leased, Outcome
from models.bench import Bench
from simulator.server import Build, Server

QUEUE = QueueKeys("sim", "q")
SESSION = "host/1/a"
WINDOW_MS = 60_000


@pytest.fixture
def bench(url: str) -> Iterator[Bench]:
    server = Server(url)
    bench = Bench(server, Build())
    bench.run(leases.beat(QUEUE, {SESSION: True}, 600_000, 1.0))
    yield bench
    server.close()


@pytest.fixture
def held(bench: Bench) -> list[Leased]:
    """Three leased jobs, the second without a record."""
    bench.run(enqueue.push(QUEUE, [NewJob(f"j{at}", record_header.head(1, 3) + b"body") for at in range(3)]))
    found = bench.run(leases.reserve(QUEUE, SESSION, 3, "r", "")).jobs
    bench.lose_field(QUEUE.jobs, "j1")
    return found


@pytest.mark.parametrize("kind", "srdgzc")
def test_job_without_record_is_settled_with_others(bench: Bench, held: list[Leased], kind: str) -> None:
    kinds = ["s", kind, "s"]
    ends = [Outcome(job.id, job.token, how) for job, how in zip(held, kinds, strict=True)]  # type: ignore[arg-type]
    assert bench.run(leases.settle(QUEUE, SESSION, ends, WINDOW_MS)) == [True, True, True]
    status, _ = bench.run(queue_status.status(QUEUE))
    assert (status.running, status.succeeded) == (0, 3 if kind == "s" else 2)
    assert bench.run(leases.reserve(QUEUE, SESSION, 3, "r2", "")).jobs == []


@pytest.mark.usefixtures("held")
def test_job_without_record_is_returned_with_others(bench: Bench) -> None:
    assert bench.run(leases.recover(QUEUE, SESSION, WINDOW_MS, gone=True, counted=False)) == 2
    bench.run(leases.beat(QUEUE, {SESSION: True}, 10**9, 1.0))
    assert [job.id for job in bench.run(leases.reserve(QUEUE, SESSION, 3, "r2", "")).jobs] == ["j0", "j2"]


def test_resent_lease_reports_lost_record_as_unreadable(bench: Bench, held: list[Leased]) -> None:
    found = bench.run(leases.reserve(QUEUE, SESSION, 3, "r", ""), again=True).jobs
    assert {job.id: job.record for job in found} == {job.id: b"" if job.id == "j1" else job.record for job in held}
