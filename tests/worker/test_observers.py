"""Observers of tasks: an integration follows the jobs of one task."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from clients import client_of
from lockwork import Lockwork, current_job
from lockwork.jobs.current import JobContext
from lockwork.protocol.effects import Call
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import ends, leases
from lockwork.protocol.queue.leases import Outcome
from lockwork.tasks.observer import Ending
from lockwork.worker.embedded import embedded_worker
from processes import until

END = ("end", "NoneType")


class Observer:
    """Notes each call, value, error and end."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    async def run(self, job: JobContext, call: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        self.seen.append(("run", job.attempt))
        assert job.worker
        try:
            value = await call()
        except BaseException as error:
            self.seen.append(type(error).__name__)
            raise
        return [value]

    async def attempted(self, job: JobContext, ending: Ending, error: BaseException | None) -> None:
        self.seen.append((ending, type(error).__name__))
        if ending == "snooze":
            raise LookupError("an error of an observer changes nothing")

    async def ended(self, job: JobContext, error: BaseException | None) -> None:
        self.seen.append(("end", type(error).__name__))


@pytest.fixture
def observer(lw: Lockwork) -> Observer:
    made = Observer()
    lw.registry.context.observers["work"] = made
    return made


def work(lw: Lockwork) -> None:
    embedded_worker(lw, burst=True).run()


@pytest.mark.parametrize("is_async", [True, False])
def test_observer_sees_each_attempt_of_its_task(lw: Lockwork, observer: Observer, is_async: bool) -> None:
    def outcome(how: str) -> Any:
        job = current_job()
        if how == "retry" and job.attempt == 1:
            raise KeyError(how)
        if how == "snooze" and len(observer.seen) == 1:
            job.snooze(0)
        if how == "dead":
            raise ValueError(how)
        return how

    async def aoutcome(how: str) -> Any:
        return outcome(how)

    task = lw.task(name="work", retries=1, backoff=0.001, give_up_on=ValueError)(aoutcome if is_async else outcome)
    other = lw.task(name="other")(outcome)
    seen = {}
    for how in ("success", "retry", "snooze", "dead"):
        observer.seen.clear()
        job, plain = task.enqueue(how), other.enqueue("success")
        while job.state() not in ("succeeded", "dead"):
            work(lw)
        seen[how] = list(observer.seen)
        assert plain.result(timeout=0) == "success"
        if how != "dead":
            assert job.result(timeout=0) == [how], "the observer's value is the result"
    assert seen == {
        "success": [("run", 1), ("success", "NoneType"), END],
        "retry": [("run", 1), "KeyError", ("retry", "KeyError"), ("run", 2), ("success", "NoneType"), END],
        "snooze": [("run", 1), "Again", ("snooze", "NoneType"), ("run", 1), ("success", "NoneType"), END],
        "dead": [("run", 1), "ValueError", ("dead", "ValueError"), ("end", "ValueError")],
    }


def test_observer_sees_the_timeout_of_its_task(lw: Lockwork, observer: Observer) -> None:
    @lw.task(name="work", retries=0, timeout=0.02)
    async def stuck() -> None:
        await asyncio.sleep(30)

    stuck.enqueue()
    work(lw)
    assert observer.seen == [("run", 1), "JobTimeout", ("dead", "JobTimeout"), ("end", "JobTimeout")]


def tracked(lw: Lockwork, **options: Any) -> Any:
    @lw.task(name="work", retries=0)
    def work() -> None: ...

    return work.options(**options).tracking({}, 3_600_000)


def unreported(lw: Lockwork, url: str) -> list[tuple[bytes, float]]:
    """Return the ends that no worker has taken, with the times from which any worker may."""
    with contextlib.closing(client_of(url)) as server:
        key = QueueKeys(lw.config.prefix, "default").unreported
        return list(server.zrangebyscore(key, 0, 8e15, withscores=True))


def test_end_of_a_waiting_job_is_reported_by_one_running_worker(lw: Lockwork, observer: Observer, url: str) -> None:
    task = tracked(lw, delay=600)
    workers = [embedded_worker(lw) for _ in range(3)]
    threads = [threading.Thread(target=each.run) for each in workers]
    for thread in threads:
        thread.start()
    try:
        jobs = [task.enqueue() for _ in range(20)]
        began = time.monotonic()
        for job in jobs:
            job.cancel()
        until(lambda: len(observer.seen) == len(jobs), "all ends are reported")
        assert time.monotonic() - began < 4, "by a message, and not by the poll after 5 s"
    finally:
        for each in workers:
            each.stop()
        for thread in threads:
            thread.join()
    assert observer.seen == [END] * len(jobs)
    assert unreported(lw, url) == []


@pytest.mark.parametrize("how", ["cancelled", "expired"])
def test_end_without_a_worker_is_reported_by_the_next(lw: Lockwork, observer: Observer, how: str) -> None:
    job = tracked(lw, **({"expires": 0.01} if how == "expired" else {})).enqueue()
    job.cancel() if how == "cancelled" else time.sleep(0.05)
    assert job.state() == how
    work(lw)
    work(lw)
    assert observer.seen == [END]


def test_end_whose_worker_died_after_it_settled_is_reported(lw: Lockwork, observer: Observer, url: str) -> None:
    tracked(lw).enqueue()
    queue, run = QueueKeys(lw.config.prefix, "default"), lw.runtime.run
    run(leases.beat(queue, {"s": True}, 60_000, 5))
    (job,) = run(leases.reserve(queue, "s", 1, "r", "")).jobs
    outcome = Outcome(job.id, job.token, "s", b"null", 3_600_000, "work")
    assert run(leases.settle(queue, "s", [outcome], 60_000, {"work"})) == [True]
    ((entry, due),) = unreported(lw, url)
    assert 8 < due / 1000 - time.time() < 11, "first, the end is that of the worker that settled it"
    work(lw)
    assert observer.seen == []
    with contextlib.closing(client_of(url)) as server:
        server.zadd(queue.unreported, {entry: 1})
    work(lw)
    assert observer.seen == [END]


def test_repeated_take_after_a_lost_reply_returns_the_end_again(lw: Lockwork) -> None:
    job = tracked(lw).enqueue()
    job.cancel()
    queue, run = QueueKeys(lw.config.prefix, "default"), lw.runtime.run
    first = next(ends.take(queue, job.id, "work"))
    assert isinstance(first, Call)

    def sent(call: Call) -> Any:
        return (yield call)

    assert [run(sent(each)) for each in (first, first.again(), first)] == [1, 1, 0]
    assert run(ends.take(queue, job.id, "work")) is False


@pytest.mark.parametrize("changes", [{}, {"key": "k"}, {"max_deliveries": 2}, {"hide_arguments": True}])
def test_outcome_of_a_tracked_job_is_kept_for_its_time(lw: Lockwork, url: str, changes: dict[str, Any]) -> None:
    hidden = changes == {"hide_arguments": True}
    changes = {} if hidden else changes

    @lw.task(name="work", retries=0, hide_arguments=hidden)
    def work(number: int) -> None: ...

    task = work.options(delay=600, **changes)
    tracked_job, plain = task.tracking({}, 7_200_000).enqueue(1), task.enqueue(2)
    for job in (tracked_job, plain):
        assert job.cancel()
    with contextlib.closing(client_of(url)) as server:
        queue = QueueKeys(lw.config.prefix, "default")
        assert 7_190_000 < server.pttl(queue.long_results) <= 7_260_000
        assert server.hlen(queue.long_results) == 1, "other jobs pay nothing"
        assert [entry.split()[0].decode() for entry, _ in unreported(lw, url)] == [tracked_job.id]
        server.delete(*queue.results, queue.history, queue.history_order)
    assert (tracked_job.state(), plain.state()) == ("cancelled", "unknown")
    seen = tracked_job.inspect()
    assert seen.ended is not None
    assert abs(seen.ended.timestamp() - time.time()) < 5
    assert tracked_job.retry()
    assert tracked_job.state() in ("ready", "scheduled")
    with contextlib.closing(client_of(url)) as server:
        assert server.hlen(queue.long_results) == 0


def test_fields_of_an_integration_travel_with_the_job(lw: Lockwork) -> None:
    @lw.task
    def send(user: int) -> None: ...

    @lw.enqueue_middleware
    def stamped(outgoing: Any) -> Any:
        outgoing.headers["trace"] = "1"
        yield

    job = send.options(tags=["a"]).tracking({"shop": {"backend": "x"}}, 60_000).enqueue(1)
    seen = job.inspect()
    assert (seen.args, seen.tags) == ((1,), ("a",))
    work(lw)
    assert job.state() == "succeeded"
