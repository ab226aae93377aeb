"""Clean-up of groups and rates on the server: unused fields are deleted, and clock steps do no harm."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import enqueue, job_control, leases, record_header
from lockwork.protocol.queue import limits as queue_limits
from lockwork.protocol.queue.enqueue import NewJob
from lockwork.protocol.queue.leases import Outcome
from lockwork.protocol.queue.record_header import JobLimits
from models.bench import CHANNEL, SECOND, Bench
from simulator.server import Build, Server

QUEUE = QueueKeys("sim", "q")
SESSION = "host/1/a"
WINDOW_MS = 60_000
SLOW = JobLimits(0, 1, 60_000)


@pytest.fixture
def bench(url: str) -> Iterator[Bench]:
    server = Server(url)
    bench = Bench(server, Build())
    bench.run(leases.beat(QUEUE, {SESSION: True}, 10**9, 1.0))
    yield bench
    server.close()


def _push(bench: Bench, id: str, group: str, limits: JobLimits = SLOW) -> None:
    bench.run(enqueue.push(QUEUE, [NewJob(id, record_header.head(1, 3, "", group, limits) + b"body")]))


def _reserve(bench: Bench, request: str, want: int = 5) -> leases.Batch:
    return bench.run(leases.reserve(QUEUE, SESSION, want, request, ""))


def _run(bench: Bench, request: str) -> list[str]:
    found = _reserve(bench, request).jobs
    bench.run(leases.settle(QUEUE, SESSION, [Outcome(job.id, job.token, "s") for job in found], WINDOW_MS))
    return sorted(job.id for job in found)


def test_unused_rate_of_a_group_is_deleted(bench: Bench) -> None:
    groups = [f"tenant-{at:03}" for at in range(150)]
    for group in groups:
        _push(bench, f"j-{group}", group)
    for call in range(30):
        _run(bench, f"r{call}")
    times = {f"t {group}" for group in groups}
    assert times < bench.fields(QUEUE.groups), "the next job of each group must still wait"
    assert _reserve(bench, "idle").next_due is None, "no worker is woken for that"
    bench.now += 61 * SECOND
    for call in range(2):
        _reserve(bench, f"later{call}")
    assert bench.fields(QUEUE.groups) == {"#"}
    assert not bench.scores(QUEUE.throttled)


def test_rate_is_kept_while_its_group_is_empty(bench: Bench) -> None:
    """The time of the next start is kept while no job of the group waits, and after it was used again."""
    _push(bench, "j0", "tenant")
    assert _run(bench, "r0") == ["j0"]
    _push(bench, "j1", "tenant")
    assert _run(bench, "r1") == []
    bench.now += 61 * SECOND
    assert _run(bench, "r2") == ["j1"]
    bench.now += 30 * SECOND
    _push(bench, "j2", "tenant")
    assert _run(bench, "r3") == []
    bench.now += 31 * SECOND
    assert _run(bench, "r4") == ["j2"]


def test_group_of_cancelled_jobs_leaves_no_keys(bench: Bench) -> None:
    for at in range(3):
        _push(bench, f"j{at}", f"tenant-{at}")
    assert len(_reserve(bench, "r0", 1).jobs) == 1
    running = next(iter(bench.hash(QUEUE.run(SESSION)).items()))
    for at in range(3):
        bench.run(job_control.cancel(QUEUE, f"j{at}", "sim", WINDOW_MS))
    bench.run(leases.settle(QUEUE, SESSION, [Outcome(running[0], running[1].encode(), "c")], WINDOW_MS))
    bench.now += 61 * SECOND
    _reserve(bench, "r1")
    assert bench.fields(QUEUE.groups) == {"#"}


@pytest.mark.parametrize("dies", [False, True])
def test_end_of_job_with_key_and_group_wakes_two_workers(bench: Bench, *, dies: bool) -> None:
    """The next job of the key may have another group, and the next job of the group may have no key."""
    one, none = JobLimits(1), JobLimits()
    bench.hear("second")
    for id, key, group, limits in (("j0", "k", "tenant", one), ("j1", "k", "", none), ("j2", "", "tenant", one)):
        bench.run(
            enqueue.push(QUEUE, [NewJob(id, record_header.head(1, 1, key, group, limits, deliveries=1) + b"body")])
        )
    (job,) = _reserve(bench, "r0", 1).jobs
    for channel in (CHANNEL, "second"):
        assert not bench.run(leases.reserve(QUEUE, SESSION, 1, f"sleeps-{channel}", channel)).jobs
    bench.messages.clear()
    if dies:
        bench.run(leases.recover(QUEUE, SESSION, WINDOW_MS, gone=True))
    else:
        bench.run(leases.settle(QUEUE, SESSION, [Outcome(job.id, job.token, "s")], WINDOW_MS))
    assert [channel for channel, _ in bench.messages] == [CHANNEL, "second"]


def test_clock_step_back_costs_a_group_one_period(bench: Bench) -> None:
    _push(bench, "j0", "tenant")
    assert _run(bench, "r0") == ["j0"]
    bench.now -= 3600 * SECOND
    _push(bench, "j1", "tenant")
    assert _run(bench, "r1") == []
    bench.now += 61 * SECOND
    assert _run(bench, "r2") == ["j1"]


def test_clock_step_back_costs_a_queue_one_period(bench: Bench) -> None:
    bench.run(queue_limits.change(QUEUE, {"rate": "1/60000"}))
    bench.run(enqueue.push(QUEUE, [NewJob(f"j{at}", record_header.head(1, 3) + b"body") for at in range(2)]))
    assert _run(bench, "r0") == ["j0"]
    bench.now -= 3600 * SECOND
    assert _run(bench, "r1") == []
    bench.now += 61 * SECOND
    assert _run(bench, "r2") == ["j1"]


@pytest.mark.parametrize("lifted", [record_header.head(1, 3, "", "g"), b"1,3,,g;"], ids=["written", "omitted"])
def test_limit_that_newer_jobs_do_not_have_is_removed(bench: Bench, lifted: bytes) -> None:
    """Also while the group never becomes empty."""
    for number in range(3):
        _push(bench, f"old{number}", "g", JobLimits(1))
    assert [job.id for job in _reserve(bench, "r1").jobs] == ["old0"]
    bench.run(enqueue.push(QUEUE, [NewJob("new", lifted + b"body")]))
    assert [job.id for job in _reserve(bench, "r2").jobs] == ["old1", "old2", "new"]
