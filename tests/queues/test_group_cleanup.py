"""What the server keeps of groups and rates: nothing for long that nobody uses, and no time that the clock has left."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queues import enqueue, job_control, leases, record_header
from lockwork.protocol.queues import limits as queue_limits
from lockwork.protocol.queues.enqueue import NewJob
from lockwork.protocol.queues.leases import Outcome
from lockwork.protocol.queues.record_header import JobLimits
from model.bench import CHANNEL, SECOND, Bench
from simulation.server import Build, Server

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


def test_a_rate_is_forgotten_when_it_is_unused_again(bench: Bench) -> None:
    groups = [f"tenant-{at:03}" for at in range(150)]
    for group in groups:
        _push(bench, f"j-{group}", group)
    for call in range(30):
        _run(bench, f"r{call}")
    times = {f"t {group}" for group in groups}
    assert times < bench.fields(QUEUE.groups), "nothing of them waits or runs, and still the next must come later"
    assert _reserve(bench, "idle").next_due is None, "and nobody is woken for that"
    bench.now += 61 * SECOND
    for call in range(2):
        _reserve(bench, f"later{call}")
    assert bench.fields(QUEUE.groups) == {"#"}
    assert not bench.scores(QUEUE.throttled)


def test_a_rate_counts_on_meanwhile(bench: Bench) -> None:
    """Its time is kept over a moment in which nothing of the group waits, and after it was used again."""
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


def test_a_group_cancelled_while_waiting_leaves_no_keys(bench: Bench) -> None:
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
def test_a_job_that_ends_in_key_and_group_frees_two_others(bench: Bench, *, dies: bool) -> None:
    """The next of the key need not be of the group, and the next of the group may have no key: two are woken."""
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


def test_a_clock_that_was_set_back_costs_a_group_one_period(bench: Bench) -> None:
    _push(bench, "j0", "tenant")
    assert _run(bench, "r0") == ["j0"]
    bench.now -= 3600 * SECOND
    _push(bench, "j1", "tenant")
    assert _run(bench, "r1") == []
    bench.now += 61 * SECOND
    assert _run(bench, "r2") == ["j1"]


def test_a_clock_that_was_set_back_costs_a_queue_one_period(bench: Bench) -> None:
    bench.run(queue_limits.change(QUEUE, {"rate": "1/60000"}))
    bench.run(enqueue.push(QUEUE, [NewJob(f"j{at}", record_header.head(1, 3) + b"body") for at in range(2)]))
    assert _run(bench, "r0") == ["j0"]
    bench.now -= 3600 * SECOND
    assert _run(bench, "r1") == []
    bench.now += 61 * SECOND
    assert _run(bench, "r2") == ["j1"]


@pytest.mark.parametrize("lifted", [record_header.head(1, 3, "", "g"), b"1,3,,g;"], ids=["as we write it", "left out"])
def test_limits_that_newer_jobs_do_not_have_are_lifted(bench: Bench, lifted: bytes) -> None:
    """Although the group is never empty: a limit that was taken out of the code held for as long as that."""
    for number in range(3):
        _push(bench, f"old{number}", "g", JobLimits(1))
    assert [job.id for job in _reserve(bench, "r1").jobs] == ["old0"]
    bench.run(enqueue.push(QUEUE, [NewJob("new", lifted + b"body")]))
    assert [job.id for job in _reserve(bench, "r2").jobs] == ["old1", "old2", "new"]
