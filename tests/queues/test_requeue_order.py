"""Returned jobs with a key, a group or a unique name come before waiting jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from lockwork.protocol.effects import Protocol
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import enqueue, job_control, leases, record_header
from lockwork.protocol.queue.enqueue import NewJob
from lockwork.protocol.queue.leases import Outcome
from models.bench import Bench
from simulator.server import Build, Server

QUEUE = QueueKeys("sim", "q")
FIRST, OTHER = "host/1/a", "host/2/b"
WINDOW_MS = 60_000
LEASE_MS = 10**9
COUNT = 20

Return = Callable[[str], Protocol[int]]


def _give_back(session: str) -> Protocol[int]:
    return leases.recover(QUEUE, session, WINDOW_MS, gone=True, counted=False)


def _recover(session: str) -> Protocol[int]:
    """Recover the session of a worker that was killed while it stopped."""
    kept = yield from leases.beat(QUEUE, {session: False}, LEASE_MS, 1.0, stopping=True)
    ended = int(kept.at * 1000) + LEASE_MS
    return (yield from leases.recover(QUEUE, session, WINDOW_MS, gone=False, ended=ended))


returns = pytest.mark.parametrize("back", [_give_back, _recover], ids=["returned", "recovered"])


@pytest.fixture
def bench(url: str) -> Iterator[Bench]:
    server = Server(url)
    bench = Bench(server, Build())
    bench.run(leases.beat(QUEUE, {FIRST: True, OTHER: True}, LEASE_MS, 1.0))
    yield bench
    server.close()


def _push(bench: Bench, *ids: str, key: str = "", group: str = "", unique: str = "") -> None:
    """Enqueue jobs; `*` in a name is replaced by the job's ID."""
    for id in ids:
        head = record_header.head(1, 9, key.replace("*", id), group, None, unique.replace("*", id))
        bench.run(enqueue.push(QUEUE, [NewJob(id, head + b"body")]))


def _lease(bench: Bench, session: str, want: int) -> list[str]:
    found = bench.run(leases.reserve(QUEUE, session, want, f"r{bench.now}", ""))
    return [job.id for job in found.jobs]


def _run_all(bench: Bench) -> list[str]:
    """Run the waiting jobs one by one; return their IDs in that order."""
    ran: list[str] = []
    while found := bench.run(leases.reserve(QUEUE, OTHER, 1, f"r{bench.now}", "")).jobs:
        ended = [Outcome(job.id, job.token, "s") for job in found]
        bench.run(leases.settle(QUEUE, OTHER, ended, WINDOW_MS))
        ran += [job.id for job in found]
    return ran


@returns
@pytest.mark.parametrize(
    ("key", "group", "unique"),
    [("", "tenant", ""), ("k-*", "", ""), ("", "", "dwork/*"), ("k-*", "tenant", "dwork/*")],
    ids=["a group", "a key", "a unique name", "key, group and unique name"],
)
def test_returned_jobs_come_before_waiting_jobs(bench: Bench, back: Return, key: str, group: str, unique: str) -> None:
    """The order is the order of the leases, regardless of worker and order of return."""
    ids = [f"j{at:02}" for at in range(COUNT)]
    _push(bench, *ids, key=key, group=group, unique=unique)
    assert _lease(bench, FIRST, 2) == ids[:2]
    assert _lease(bench, OTHER, 2) == ids[2:4]
    assert _lease(bench, FIRST, 1) == ids[4:5]
    assert bench.run(back(OTHER)) == 2
    assert bench.run(back(FIRST)) == 3
    bench.run(leases.beat(QUEUE, {OTHER: True}, LEASE_MS, 1.0))
    assert _run_all(bench) == ids


@returns
def test_groups_still_alternate_after_a_requeue(bench: Bench, back: Return) -> None:
    big, small = [f"b{at:02}" for at in range(COUNT)], [f"s{at}" for at in range(4)]
    _push(bench, *big, group="big")
    assert _lease(bench, FIRST, 6) == big[:6]
    _push(bench, *small, group="small")
    bench.run(back(FIRST))
    ran = _run_all(bench)
    assert [id for id in ran if id in big] == big
    assert [id for id in ran if id in small] == small
    assert sum(id in small for id in ran[:8]) == 4, f"by turns: {ran}"


@returns
def test_returned_jobs_keep_their_key(bench: Bench, back: Return) -> None:
    _push(bench, "one", "two", key="k")
    _push(bench, "other", key="l")
    assert _lease(bench, FIRST, 1) == ["one"]
    bench.run(back(FIRST))
    assert _run_all(bench) == ["one", "other", "two"]


@returns
def test_deleted_jobs_leave_their_group_queue(bench: Bench, back: Return) -> None:
    _push(bench, "a-moved", "b-cancelled", "c-next", key="k-*", group="tenant")
    assert _lease(bench, FIRST, 2) == ["a-moved", "b-cancelled"]
    bench.run(back(FIRST))
    assert bench.run(job_control.cancel(QUEUE, "b-cancelled", "sim", WINDOW_MS)) == "cancelled"
    assert bench.run(job_control.reschedule(QUEUE, "a-moved", 60_000)) == "scheduled"
    assert _run_all(bench) == ["c-next"]
    assert not bench.scores(QUEUE.group_queue)
    assert bench.fields(QUEUE.groups) == {"#"}


def test_job_deleted_by_hand_is_not_returned(bench: Bench) -> None:
    _push(bench, "a-gone", "b-next", unique="dwork/*")
    assert _lease(bench, FIRST, 1) == ["a-gone"]
    bench.lose_field(QUEUE.jobs, "a-gone")
    bench.run(_give_back(FIRST))
    assert not bench.scores(QUEUE.due)
    assert _run_all(bench) == ["b-next"]
    assert not bench.scores(QUEUE.group_queue)
