"""Observers of tasks: an integration follows the jobs of one task."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from lockwork import Lockwork, current_job
from lockwork.jobs.current import JobContext
from lockwork.tasks.observer import Ending
from lockwork.worker.embedded import embedded_worker


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

    async def ended(self, job: JobContext, ending: Ending, error: BaseException | None) -> None:
        self.seen.append((ending, type(error).__name__))
        if ending == "snooze":
            raise LookupError("an error of an observer changes nothing")


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
        "success": [("run", 1), ("success", "NoneType")],
        "retry": [("run", 1), "KeyError", ("retry", "KeyError"), ("run", 2), ("success", "NoneType")],
        "snooze": [("run", 1), "Again", ("snooze", "NoneType"), ("run", 1), ("success", "NoneType")],
        "dead": [("run", 1), "ValueError", ("dead", "ValueError")],
    }


def test_observer_sees_the_timeout_of_its_task(lw: Lockwork, observer: Observer) -> None:
    @lw.task(name="work", retries=0, timeout=0.02)
    async def stuck() -> None:
        await asyncio.sleep(30)

    stuck.enqueue()
    work(lw)
    assert observer.seen == [("run", 1), "JobTimeout", ("dead", "JobTimeout")]


def test_fields_of_an_integration_travel_with_the_job(lw: Lockwork) -> None:
    @lw.task
    def send(user: int) -> None: ...

    @lw.enqueue_middleware
    def stamped(outgoing: Any) -> Any:
        outgoing.headers["trace"] = "1"
        yield

    job = send.options(tags=["a"]).carrying({"shop": {"backend": "x"}}).enqueue(1)
    seen = job.inspect()
    assert (seen.args, seen.tags) == ((1,), ("a",))
    work(lw)
    assert job.state() == "succeeded"
