"""Suspects, step by step: jobs that shared the crash of a process wait separately, and run one at a time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lockwork.errors import WaitTimeout
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import browse, enqueue, job_control, leases, record_header
from lockwork.protocol.queue import limits as queue_limits
from lockwork.protocol.queue import status as queue_status
from lockwork.protocol.queue.enqueue import NewJob
from lockwork.protocol.queue.leases import Leased, Outcome
from lockwork.protocol.queue.record_header import JobLimits
from lockwork.protocol.queue.unique import Terms, push_unique
from models.bench import CHANNEL, SECOND, Bench
from simulator.server import Build, Server

QUEUE = QueueKeys("sim", "q")
ANN, BOB, ISOLATION, OTHER = "host/1/a", "host/2/b", "host/3/c", "host/4/d"
WINDOW_MS = 60_000
BODY = b'["work",[1]]'


@pytest.fixture
def bench(url: str) -> Iterator[Bench]:
    server = Server(url)
    bench = Bench(server, Build())
    for session in (ANN, BOB, ISOLATION, OTHER):
        _join(bench, session)
    yield bench
    server.close()


def _join(bench: Bench, session: str) -> None:
    bench.run(leases.beat(QUEUE, {session: True}, 10**9, 1.0))


def _push(
    bench: Bench, *ids: str, key: str = "", group: str = "", limits: JobLimits | None = None, most: int = 0
) -> None:
    head = record_header.head(1, 3, key, group, limits, deliveries=most)
    bench.run(enqueue.push(QUEUE, [NewJob(id, head + BODY) for id in ids]))


def _lease(bench: Bench, session: str = ANN, want: int = 100, channel: str = "") -> list[Leased]:
    return bench.run(leases.reserve(QUEUE, session, want, f"r{bench.now}", channel)).jobs


def _alone(bench: Bench, session: str = ISOLATION) -> Leased | None:
    found = bench.run(leases.reserve_suspect(QUEUE, session, f"s{bench.now}")).jobs
    return found[0] if found else None


def _settle(bench: Bench, session: str, job: Leased, kind: str = "s") -> None:
    outcome = Outcome(job.id, job.token, kind, b"{}")  # type: ignore[arg-type]
    assert bench.run(leases.settle(QUEUE, session, [outcome], WINDOW_MS)) == [True]


def _crash(bench: Bench, session: str = ANN) -> list[str]:
    """Let the process die; return the new suspects."""
    suspects: list[str] = []
    bench.run(leases.recover(QUEUE, session, WINDOW_MS, gone=True, on_suspects=suspects.extend))
    _join(bench, session)
    return sorted(suspects)


def _suspects(bench: Bench, *ids: str, **options: object) -> None:
    """Enqueue jobs and let them share a crash."""
    _push(bench, *ids, **options)  # type: ignore[arg-type]
    leased = _lease(bench)
    assert len(leased) == len(ids) > 1
    assert _crash(bench) == sorted(ids)


def test_lone_crash_counts_and_shared_crash_does_not(bench: Bench) -> None:
    _push(bench, "lone")
    _lease(bench)
    assert _crash(bench) == []
    (lone,) = _lease(bench)
    assert (lone.attempt, lone.crashes, lone.deaths) == (2, 1, 1)
    _settle(bench, ANN, lone)
    _suspects(bench, "one", "two")
    assert not _lease(bench, BOB), "only isolation processes run suspects"
    one = _alone(bench)
    assert one is not None
    assert (one.id, one.attempt, one.crashes, one.deaths) == ("one", 2, 0, 1)
    assert _alone(bench) is None, "one at a time"
    two = _alone(bench, OTHER)
    assert two is not None, "other isolation processes run the others"
    assert _crash(bench, ISOLATION) == ["one"], "it crashed alone, and stays a suspect"
    _settle(bench, OTHER, two)
    for crashes in (1, 2):
        one = _alone(bench)
        assert one is not None
        assert (one.attempt, one.crashes) == (2 + crashes, crashes)
        assert bench.hash(QUEUE.stats).get("suspects") is None, "none waits"
        _crash(bench, ISOLATION)
    assert [*bench.scores(QUEUE.dead)] == ["one"]
    assert bench.hash(QUEUE.tries)["one"] == "4/3/1"


def test_failures_are_counted_without_shared_crashes(bench: Bench) -> None:
    _suspects(bench, "one", "two")
    job = _alone(bench)
    assert job is not None
    budget = record_header.budget(job.record)
    assert budget.left_after_failure(job.attempt, job.deaths), "2 of 3 failures are left"
    _settle(bench, ISOLATION, job, "r")
    (again,) = _lease(bench, BOB)
    assert (again.id, again.attempt, again.deaths) == ("one", 3, 1), "a retry is no suspect"


def test_cap_of_deliveries_counts_shared_crashes(bench: Bench) -> None:
    _push(bench, "once", most=1)
    _push(bench, "twice", most=2)
    _lease(bench)
    assert _crash(bench) == ["twice"]
    assert [*bench.scores(QUEUE.dead)] == ["once"]
    assert "beside another job" in bench.hash(QUEUE.errors)["once"]


def test_returned_suspect_stays_suspect_and_is_the_first(bench: Bench) -> None:
    _suspects(bench, "one", "two", "three")
    job = _alone(bench)
    assert job is not None
    _settle(bench, ISOLATION, job, "g")
    assert not _lease(bench, BOB)
    again = _alone(bench)
    assert again is not None
    assert (again.id, again.attempt) == (job.id, job.attempt)
    bench.run(leases.recover(QUEUE, ISOLATION, WINDOW_MS, gone=True, counted=False))
    _join(bench, ISOLATION)
    third = _alone(bench)
    assert third is not None
    assert (third.id, third.attempt) == (job.id, job.attempt)


def test_lost_reply_is_sent_again(bench: Bench) -> None:
    _suspects(bench, "one", "two")
    first = bench.run(leases.reserve_suspect(QUEUE, ISOLATION, "x"))
    again = bench.run(leases.reserve_suspect(QUEUE, ISOLATION, "x", again=True))
    assert first.jobs == again.jobs
    assert first.fence == again.fence
    assert bench.run(queue_status.status(QUEUE))[0].running == 1


def test_suspect_keeps_its_key(bench: Bench) -> None:
    _push(bench, "first", key="k")
    _push(bench, "beside")
    _push(bench, "second", key="k")
    _lease(bench)
    assert _crash(bench) == ["beside", "first"]
    assert not _lease(bench, BOB), "the next of the key waits"
    for session in (ISOLATION, OTHER):
        job = _alone(bench, session)
        assert job is not None
        _settle(bench, session, job)
    assert [job.id for job in _lease(bench, BOB)] == ["second"]


def test_paused_queue_runs_no_suspects(bench: Bench) -> None:
    _suspects(bench, "one", "two")
    bench.run(queue_limits.change(QUEUE, {"paused": 1}))
    assert bench.run(leases.beat(QUEUE, {BOB: False}, 10**9, 1.0)).suspects == 0
    assert bench.run(leases.reserve_suspect(QUEUE, ISOLATION, "x")) == leases.Batch([], None, bench.now)
    bench.run(queue_limits.change(QUEUE, {"paused": ""}))
    assert bench.run(leases.beat(QUEUE, {BOB: False}, 10**9, 1.0)).suspects == 2
    assert _alone(bench) is not None


def test_suspect_comes_before_jobs_that_wait_for_the_concurrency_limit(bench: Bench) -> None:
    """Otherwise, the usual workers would use each free slot before an isolation process calls again."""
    _suspects(bench, "one", "two")
    bench.run(queue_limits.change(QUEUE, {"concurrency": 2}))
    _push(bench, "a", "b", "c", "d")
    held = _lease(bench, BOB)
    assert len(held) == 2
    refused = bench.run(leases.reserve_suspect(QUEUE, ISOLATION, "x"))
    assert (refused.jobs, refused.next_due) == ([], 0.1)
    bench.hear(CHANNEL)
    assert not _lease(bench, ANN, channel=CHANNEL)
    _settle(bench, BOB, held[0])
    _settle(bench, BOB, held[1])
    assert not _lease(bench, BOB), "the next place is the suspect's"
    bench.messages.clear()
    assert _alone(bench) is not None
    assert bench.messages == [(CHANNEL, QUEUE.jobs)], "the other place is for those that sleep"
    assert len(_lease(bench, ANN)) == 1
    assert bench.run(queue_status.status(QUEUE))[0].running == 2


def test_suspects_of_dead_isolation_process_do_not_block_workers(bench: Bench) -> None:
    _suspects(bench, "one", "two")
    bench.run(queue_limits.change(QUEUE, {"concurrency": 1}))
    _push(bench, "a", "b")
    (held,) = _lease(bench, BOB)
    assert _alone(bench) is None
    _settle(bench, BOB, held)
    found = bench.run(leases.reserve(QUEUE, BOB, 1, "y", ""))
    assert not found.jobs
    assert found.next_due is not None
    assert found.next_due <= 1.0
    bench.now += SECOND + SECOND // 10
    assert [job.id for job in _lease(bench, BOB)] == ["b"]


def test_rate_of_the_queue_holds_for_suspects(bench: Bench) -> None:
    _suspects(bench, "one", "two")
    bench.run(queue_limits.change(QUEUE, {"rate": "1/5000"}))
    assert _alone(bench) is not None
    refused = bench.run(leases.reserve_suspect(QUEUE, OTHER, "x"))
    assert (refused.jobs, refused.next_due) == ([], 1.0)
    _push(bench, "a")
    bench.now += 5 * SECOND
    assert not _lease(bench, BOB), "the suspect was first"
    assert _alone(bench, OTHER) is not None


def test_limits_of_its_group_hold_for_a_suspect(bench: Bench) -> None:
    limits = JobLimits(at_once=2)
    _suspects(bench, "one", "two", group="g", limits=limits)
    _push(bench, "a", "b", "c", group="g", limits=limits)
    held = _lease(bench, BOB)
    assert len(held) == 2
    refused = bench.run(leases.reserve_suspect(QUEUE, ISOLATION, "x"))
    assert (refused.jobs, refused.next_due) == ([], 0.1)
    _settle(bench, BOB, held[0])
    assert not _lease(bench, BOB), "the next turn of the group is the suspect's"
    assert _alone(bench) is not None
    assert _alone(bench, OTHER) is None
    bench.now += 2 * SECOND
    _settle(bench, BOB, held[1])
    assert [job.id for job in _lease(bench, BOB)] == ["c"], "nobody asked for the suspect any more"


def test_suspect_that_waits_for_its_group_lets_others_run(bench: Bench) -> None:
    limits = JobLimits(jobs=1, per_ms=10_000)
    _push(bench, "slow", group="g", limits=limits)
    _push(bench, "free")
    assert len(_lease(bench)) == 2
    assert _crash(bench) == ["free", "slow"]
    job = _alone(bench)
    assert job is not None
    assert job.id == "free"
    assert _alone(bench, OTHER) is None
    bench.now += 10 * SECOND
    job = _alone(bench, OTHER)
    assert job is not None
    assert job.id == "slow"


def test_waiting_suspect_is_cancelled_rescheduled_and_deleted(bench: Bench) -> None:
    _suspects(bench, "a", "b", "c", "d")
    assert bench.run(job_control.find_place(QUEUE, "a")).state == "ready"
    seen = bench.run(job_control.inspect(QUEUE, "a"))
    assert (seen.state, seen.suspect, seen.counts) == ("active", True, (1, 0, 1))
    assert bench.run(job_control.cancel(QUEUE, "a", "sim")) == "cancelled"
    assert bench.run(job_control.delete(QUEUE, "b")) == "deleted"
    assert bench.run(job_control.reschedule(QUEUE, "c", 0)) == "scheduled"
    assert bench.scores(QUEUE.suspects).keys() == {"c", "d"}
    assert bench.run(job_control.reschedule(QUEUE, "c", 5000)) == "scheduled"
    status = bench.run(queue_status.status(QUEUE))[0]
    assert (status.ready, status.scheduled, status.cancelled) == (1, 1, 1)
    bench.lose_field(QUEUE.jobs, "d")
    assert _alone(bench) is None, "it was deleted by hand"
    assert "suspects" not in bench.hash(QUEUE.stats)
    assert not bench.scores(QUEUE.suspects)


def test_suspects_are_listed_counted_and_cleared(bench: Bench) -> None:
    _suspects(bench, "a", "b", "c")
    _push(bench, "plain")
    assert [job.id for job in bench.run(browse.peek(QUEUE, "ready", 0, 10))] == ["plain", "a", "b", "c"]
    assert [job.id for job in bench.run(browse.peek(QUEUE, "ready", 2, 10))] == ["b", "c"]
    with pytest.raises(WaitTimeout, match="4 jobs wait, 0 run"):
        bench.run(queue_limits.drain(QUEUE, CHANNEL, 0, delayed=False))
    assert bench.run(browse.clear(QUEUE, "request", WINDOW_MS)) == 4
    assert bench.run(queue_status.status(QUEUE))[0].ready == 0
    assert not bench.hash(QUEUE.jobs)
    assert "suspects" not in bench.hash(QUEUE.stats)


def test_unique_suspect_is_replaced_like_any_waiting_job(bench: Bench) -> None:
    terms = Terms(until="done", meaning="replace")
    record = record_header.head(1, 3, unique=terms.mark("work/x")) + BODY
    bench.run(push_unique(QUEUE, [NewJob("u", record)], terms, None))
    _push(bench, "beside")
    assert len(_lease(bench)) == 2
    assert _crash(bench) == ["beside", "u"]
    found = bench.run(push_unique(QUEUE, [NewJob("v", record)], terms, None))
    assert [arrival[0] for arrival in found] == ["u"]
    (again,) = _lease(bench, BOB)
    assert (again.id, again.attempt) == ("u", 1), "it is another call now"
    assert bench.scores(QUEUE.suspects).keys() == {"beside"}
