"""Unique jobs and flows in a full queue: a call adds everything or nothing."""

from __future__ import annotations

from typing import Any

import pytest

from lockwork import Lockwork
from lockwork.errors import QueueFull
from lockwork.protocol.effects import Call, Protocol
from lockwork.protocol.flows.flows import FlowJob, push
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import record_header
from lockwork.protocol.queue.enqueue import NewJob
from lockwork.protocol.queue.unique import Terms, push_unique

QUEUE = QueueKeys("lw", "default")


@pytest.fixture
def report(lw: Lockwork) -> Any:
    @lw.task(unique="report:{user}")
    async def report(user: int) -> None: ...

    return report


@pytest.fixture
def page(lw: Lockwork) -> Any:
    @lw.task
    async def page(number: int) -> None: ...

    return page


def waiting(lw: Lockwork) -> int:
    status = lw.queue().status()
    return status.ready + status.scheduled + status.blocked


def test_full_queue_refuses_new_unique_jobs_only(lw: Lockwork, report: Any) -> None:
    lw.queue().limit(size=1)
    first = report.enqueue(1)
    assert report.enqueue(1).id == first.id
    with pytest.raises(QueueFull) as refused:
        report.enqueue(2)
    assert (refused.value.waiting, refused.value.limit, refused.value.enqueued) == (1, 1, 0)
    assert waiting(lw) == 1
    lw.queue().limit(size=2)
    assert report.enqueue(2).new, "the refused call did not take the name"


def test_unique_jobs_are_counted_by_their_names(lw: Lockwork, report: Any) -> None:
    lw.queue().limit(size=3)
    report.enqueue(1)
    with pytest.raises(QueueFull):
        report.enqueue_many([(2,), (1,), (3,), (2,), (4,)])
    assert waiting(lw) == 1
    assert [job.new for job in report.enqueue_many([(2,), (1,), (3,), (2,)])] == [True, False, True, False]


def test_resent_unique_enqueue_is_not_refused(lw: Lockwork) -> None:
    lw.queue().limit(size=1)
    storing = push_unique(
        QUEUE, [NewJob("j1", record_header.head(1, 1, unique="dtask/name") + b"[]")], Terms("done", "keep"), None
    )
    effect = next(storing)
    assert isinstance(effect, Call)
    assert lw.runtime.run(_once(effect)) == lw.runtime.run(_once(effect.again())) == [b"j1", b"n"]
    storing.close()


def test_flow_is_refused_as_a_whole(lw: Lockwork, page: Any) -> None:
    lw.queue().limit(size=2)
    with pytest.raises(QueueFull) as refused:
        lw.chain(page.call(1), page.call(2), page.call(3)).enqueue()
    assert (refused.value.waiting, refused.value.limit) == (0, 2)
    assert waiting(lw) == 0
    lw.chain(page.call(1), page.call(2)).enqueue()
    assert waiting(lw) == 2
    with pytest.raises(QueueFull):
        lw.group([page.call(1)]).enqueue()


def test_started_flow_is_stored_completely(lw: Lockwork) -> None:
    """The first call reserves the space; resent calls are not refused because of their own jobs."""
    lw.queue().limit(size=1200)
    storing = push(QUEUE, "F", [FlowJob(b"1,1,,;[]")] * 1200, None)
    effect = next(storing)
    with pytest.raises(StopIteration) as done:
        while True:
            assert isinstance(effect, Call)
            lw.runtime.run(_once(effect))
            effect = storing.send(lw.runtime.run(_once(effect.again())))
    assert done.value.value is True
    assert waiting(lw) == 1200


def _once(call: Call) -> Protocol[Any]:
    return (yield call)
