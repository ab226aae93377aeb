"""The size limit of a queue applies to new unique jobs and to whole flows."""

from __future__ import annotations

import pytest

from lockwork import Lockwork
from lockwork.errors import QueueFull


def test_unique_jobs_are_refused_when_the_queue_is_full(lw: Lockwork) -> None:
    @lw.task(unique=True)
    def work(number: int) -> None: ...

    queue = lw.queue()
    queue.limit(size=2)
    first = work.enqueue(1)
    with pytest.raises(QueueFull, match="1 job waits in queue 'default', and its limit is 2") as caught:
        work.enqueue_many([(1,), (2,), (3,)])
    assert (caught.value.waiting, caught.value.limit, caught.value.enqueued) == (1, 2, 0)
    assert queue.status().enqueued == 1, "all or nothing"
    assert work.enqueue_many([(2,), (2,), (1,)])[2].id == first.id, "two of the three are one"
    with pytest.raises(QueueFull):
        work.options(unique_until="10m").enqueue(3)
    queue.limit(size=0)
    assert work.enqueue(1).arrival == "kept"
    assert work.options(on_duplicate="replace").enqueue(1).arrival == "replaced"
    with pytest.raises(QueueFull):
        work.enqueue(3)
    queue.limit(size=None)
    assert work.enqueue(3).new


def test_refused_batch_of_unique_jobs_counts_the_enqueued_jobs(lw: Lockwork) -> None:
    @lw.task(unique=True)
    def work(number: int) -> None: ...

    lw.queue().limit(size=1200)
    with pytest.raises(QueueFull) as caught:
        work.enqueue_many([(number,) for number in range(2000)])
    assert caught.value.enqueued == 1000
    assert lw.queue().status().enqueued == 1000


def test_flow_is_refused_as_a_whole(lw: Lockwork) -> None:
    @lw.task
    def work(number: int) -> int:
        return number

    queue = lw.queue()
    queue.limit(size=4)
    work.enqueue(0)
    flow = lw.chain(work.call(1), work.call(2), work.call(3))
    flow.enqueue()
    with pytest.raises(QueueFull, match="4 jobs wait in queue 'default', and its limit is 4"):
        lw.chain(work.call(1)).enqueue()
    queue.limit(size=6)
    with pytest.raises(QueueFull):
        flow.enqueue()
    assert queue.status().enqueued == 4
    queue.limit(size=7)
    flow.enqueue()
    status = queue.status()
    assert (status.enqueued, status.blocked) == (7, 4)
