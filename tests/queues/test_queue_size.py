"""A queue with a size limit refuses jobs, by batch or one by one, but never its retries."""

from __future__ import annotations

import asyncio
import itertools
import pickle
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
import redis

from history import History
from lockwork import Lockwork
from lockwork.errors import JobNotReplicated, QueueFull
from lockwork.hooks import Enqueued
from processes import worker


def test_full_queue_refuses_jobs(lw: Lockwork) -> None:
    @lw.task
    def work(number: int = 0) -> None: ...

    queue = lw.queue()
    queue.limit(size=5)
    work.enqueue_many([(number,) for number in range(3)])
    work.options(delay=60).enqueue()
    with pytest.raises(QueueFull, match="4 jobs wait in queue 'default', and its limit is 5") as caught:
        work.enqueue_many([(1,), (2,)])
    found = caught.value
    assert (found.queue, found.waiting, found.limit, found.enqueued) == ("default", 4, 5, 0)
    copied = pickle.loads(pickle.dumps(found))
    assert (str(copied), copied.__dict__) == (str(found), found.__dict__)
    with pytest.raises(QueueFull):
        work.options(expires=60).enqueue_many([(1,), (2,)])
    assert queue.status().enqueued == 4, "all or nothing"
    message = (
        "4 jobs wait in queue 'default', and its limit is 5; 2 were to be enqueued at once: wait for its workers, "
    )
    assert str(found) == f"{message}enqueue fewer at once, or raise the limit"
    work.enqueue()
    for task in (work, work.options(delay=1), work.options(expires=60), work.options(key="a")):
        with pytest.raises(QueueFull):
            task.enqueue()
    queue.limit(size=0)
    with pytest.raises(QueueFull):
        work.enqueue()
    queue.limit(size=None)
    work.enqueue()


def test_refused_batch_counts_the_enqueued_jobs(lw: Lockwork) -> None:
    @lw.task
    def work(number: int) -> None: ...

    lw.queue().limit(size=2300)
    with pytest.raises(QueueFull) as caught:
        work.enqueue_many([(number,) for number in range(4000)])
    assert caught.value.enqueued == 2000
    assert lw.queue().status().ready == 2000


def test_hooks_run_for_jobs_enqueued_before_the_queue_was_full(lw: Lockwork) -> None:
    enqueued: list[int] = []

    @lw.task
    def work(number: int) -> None: ...

    @lw.hooks.enqueue
    def on_enqueue(event: Enqueued) -> None:
        enqueued.append(event.args[0])

    lw.queue().limit(size=1300)
    with pytest.raises(QueueFull):
        work.enqueue_many([(number,) for number in range(2000)])
    assert enqueued == list(range(1000))


@pytest.mark.parametrize("forgotten", [False, True], ids=["", "script not loaded"])
async def test_concurrent_enqueues_are_refused_one_by_one(alw: Lockwork, admin: redis.Redis, forgotten: bool) -> None:
    """They share a round trip, but the first callers are not refused because of the later ones."""

    @alw.task
    async def work(number: int) -> None: ...

    @alw.task(queue="other")
    async def other(number: int) -> None: ...

    await alw.queue().alimit(size=10)
    if forgotten:
        admin.script_flush()
        await other.aenqueue_many([(1,), (2,)])  # the server then knows one of the two scripts
    found = await asyncio.gather(*(work.aenqueue(number) for number in range(40)), return_exceptions=True)
    refused = [each for each in found if isinstance(each, BaseException)]
    assert len(refused) == 30
    assert all(isinstance(each, QueueFull) for each in refused)
    assert not any(isinstance(each, BaseException) for each in found[:10])
    assert (await alw.queue().astatus()).enqueued == 10


async def test_callers_waiting_for_replicas_get_their_own_error(alw: Lockwork) -> None:
    """The first jobs are enqueued without replicas; the others are refused. Hooks run for the enqueued jobs."""
    enqueued: list[int] = []

    @alw.task(replicas=2)
    async def work(number: int) -> None: ...

    @alw.hooks.enqueue
    def on_enqueue(event: Enqueued) -> None:
        enqueued.append(event.args[0])

    await alw.queue().alimit(size=10)
    found = await asyncio.gather(*(work.aenqueue(number) for number in range(40)), return_exceptions=True)
    assert [type(each) for each in found] == [JobNotReplicated] * 10 + [QueueFull] * 30
    ids = [each.ids for each in found if isinstance(each, JobNotReplicated)]
    assert {id for one in ids for id in one} == {job.id for job in await alw.queue().apeek(100)}
    assert all(len(one) == 1 for one in ids)
    assert sorted(enqueued) == list(range(10))


def test_batch_with_replicas_reports_full_queue_as_cause(lw: Lockwork) -> None:
    enqueued: list[int] = []

    @lw.task(replicas=2)
    def work(number: int) -> None: ...

    @lw.hooks.enqueue
    def on_enqueue(event: Enqueued) -> None:
        enqueued.append(event.args[0])

    lw.queue().limit(size=2300)
    text = "2000 jobs are enqueued, but only [01] of 2 replicas .* those after it are not enqueued: 2,000 jobs wait"
    with pytest.raises(JobNotReplicated, match=text) as caught:
        work.enqueue_many([(number,) for number in range(4000)])
    assert len(caught.value.ids) == 2000
    assert isinstance(caught.value.__cause__, QueueFull)
    assert enqueued == list(range(2000))
    assert lw.queue().status().ready == 2000


def test_threads_never_exceed_the_limit(lw: Lockwork) -> None:
    @lw.task
    def work(number: int) -> None: ...

    lw.queue().limit(size=50)
    refused = itertools.count()

    def enqueue() -> None:
        for number in range(40):
            try:
                work.enqueue_many([(number,)] * 3)
            except QueueFull:
                next(refused)

    threads = [threading.Thread(target=enqueue) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert lw.queue().status().ready == 48
    assert next(refused) == 160 - 16


def test_retries_and_returned_jobs_are_never_refused(own: Any, own_url: str, apps: Path, history: History) -> None:
    queue = own.lw.queue()
    job, held = own.fails_until.enqueue(history.path, 3), own.hold.enqueue(history.path, 600)
    queue.limit(size=0)
    with worker("chores:lw", "--grace", "0.1s", url=own_url, folder=apps) as process:
        assert job.result(30) == 3
        history.wait(4)
        process.send(signal.SIGTERM)
        assert process.wait() == 0
    assert held.state() == "ready"
    status = queue.status()
    assert (status.ready, status.running, status.retried) == (1, 0, 2)
    held.cancel()


def test_stock_reserves_no_units_when_the_queue_is_full(lw: Lockwork) -> None:
    @lw.task
    def order(buyer: str) -> None: ...

    phones = lw.stock("phone", 1)
    queue = lw.queue()
    queue.limit(size=0)
    for wait in (0, 5):
        with pytest.raises(
            QueueFull, match="queue 'default' takes no jobs, because its size limit is 0: raise the limit"
        ):
            phones.reserve("ann", enqueue=order.call("ann"), wait=wait)
    assert phones.inspect().available == 1
    held = phones.reserve("ann")
    for step in (phones.confirm, phones.release):
        with pytest.raises(QueueFull):
            step(held, enqueue=order.call("ann"))
    assert phones.inspect().reserved == 1
    queue.limit(size=1)
    phones.confirm(held, enqueue=order.call("ann"))
    phones.confirm(held, enqueue=order.call("ann"))  # a repetition has no effect
    assert queue.status().enqueued == 1
