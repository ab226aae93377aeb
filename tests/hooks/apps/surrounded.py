"""Tasks of every kind with middlewares that record events."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextvars import ContextVar
from typing import Any

from lockwork import JobContext, Lockwork, current_job, current_jobs
from lockwork.types import Again
from notes import record

lw = Lockwork()
snoozed: set[str] = set()
tenant: ContextVar[str] = ContextVar("tenant", default="nobody")


def note(event: str, job: JobContext, **facts: Any) -> None:
    record(event, job=job.id, attempt=job.attempt, thread=threading.current_thread().name, **facts)


@lw.middleware
def outer(job: JobContext) -> Iterator[None]:
    if job.task in ("never_begins", "refuses_some", "arefuses_some"):
        refused = job.task == "never_begins" or job.tags == ("refused",)
        if refused and job.attempt == 1:
            note("refused", job)
            raise ValueError("not now")
    if job.task == "closed" and job.id not in snoozed:
        snoozed.add(job.id)
        note("snoozed", job)
        job.snooze(0.01)
    note("outer", job)
    token = tenant.set("acme")
    try:
        result = yield
    except (Exception, Again, asyncio.CancelledError) as error:
        note("outer saw", job, error=type(error).__name__, text=str(error))
        if job.task == "translated":
            raise LookupError("translated") from error
        if job.task == "swallowed":
            return
        raise
    else:
        note("outer after", job, result=result)
        if job.task == "commits" and job.attempt == 1:
            raise OSError("the commit failed")
        if job.task == "twice":
            yield
    finally:
        tenant.reset(token)


@lw.middleware
def inner(job: JobContext) -> Iterator[None]:
    if job.task == "no_yield":
        return
    assert current_job() is job
    note("inner", job)
    try:
        yield
    finally:
        assert current_job() is job
        note("inner after", job)


@lw.middleware
async def on_loop(job: JobContext) -> AsyncIterator[None]:
    await asyncio.sleep(0)
    assert current_jobs() == [job]
    note("loop", job)
    try:
        yield
    except BaseException as error:
        assert current_job() is job
        note("loop saw", job, error=type(error).__name__)
        raise
    else:
        note("loop after", job)


@lw.task
async def coroutine(number: int) -> str:
    note("ran", current_job())
    return f"{number} {tenant.get()}"


@lw.task
def in_thread(number: int) -> str:
    note("ran", current_job())
    return f"{number} {tenant.get()}"


@lw.task(executor="process")
def in_process() -> str:
    note("ran", current_job())
    return tenant.get()


async def fail() -> None:
    note("ran", current_job())
    raise ValueError(f"attempt {current_job().attempt}")


never_begins = lw.task(name="never_begins", backoff=0.01)(coroutine.function)
closed = lw.task(name="closed")(coroutine.function)
commits = lw.task(name="commits", backoff=0.01)(coroutine.function)
twice = lw.task(name="twice", retries=0)(coroutine.function)
no_yield = lw.task(name="no_yield", retries=0)(coroutine.function)
fails = lw.task(name="fails", retries=1, backoff=0.01)(fail)
swallowed = lw.task(name="swallowed", retries=0)(fail)
translated = lw.task(name="translated", retries=0)(fail)


@lw.task(timeout=0.3, retries=0)
async def slow() -> None:
    await asyncio.sleep(30)


@lw.task(timeout=0.3, retries=0)
def slow_in_thread() -> None:
    until = time.monotonic() + 30
    while time.monotonic() < until:
        time.sleep(0.01)


@lw.task(hard_timeout=30)
async def asks_again() -> None:
    if current_job().attempt == 1:
        current_job().retry(0.01)


@lw.task
async def long() -> None:
    note("began", current_job())
    await asyncio.sleep(30)


@lw.task
def long_in_thread() -> None:
    note("began", current_job())
    until = time.monotonic() + 30
    while time.monotonic() < until:
        time.sleep(0.01)


def work(items: list[int]) -> list[int | Exception]:
    record("batch", items=sorted(items), jobs=len(current_jobs()), tenant=tenant.get())
    return [item * 10 if item != 3 else KeyError("three") for item in items]


async def awork(items: list[int]) -> list[int | Exception]:
    return work(items)


batched = lw.task(batch=5, linger=0.5, retries=0, name="batched")(work)
abatched = lw.task(batch=5, linger=0.5, retries=0, name="abatched")(awork)
refuses_some = lw.task(batch=3, linger=0.5, retries=0, name="refuses_some")(work)
arefuses_some = lw.task(batch=3, linger=0.5, retries=0, name="arefuses_some")(awork)
