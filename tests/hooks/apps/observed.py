"""An app with hooks of every kind; every event is appended to the file HISTORY."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from pathlib import Path
from typing import Any

from gates import opened
from lockwork import Lockwork, current_job
from lockwork.hooks import Cancelled, Died, Enqueued, Failed, Retrying, Snoozed, Started, Succeeded
from notes import record

lw = Lockwork()


@lw.hooks.enqueue
def enqueued(event: Enqueued) -> None:
    record("enqueue", id=event.id, task=event.task, queue=event.queue, args=event.args, kwargs=event.kwargs,
         delay=event.delay)  # fmt: skip


@lw.hooks.start
async def started(event: Started) -> None:
    record("start", id=event.id, task=event.task, attempt=event.attempt, args=event.args, current=current_job().id)


@lw.hooks.start
def started_too(event: Started) -> None:
    record("start-too", id=event.id, thread=threading.current_thread().name, current=current_job().id)


@lw.hooks.success
async def succeeded(event: Succeeded) -> None:
    await asyncio.sleep(0)
    record("success", id=event.id, result=event.result, measured=event.seconds >= 0)


@lw.hooks.failure
def failed(event: Failed) -> None:
    record("failure", id=event.id, task=event.task, error=repr(event.error), attempt=event.attempt)


@lw.hooks.retry
async def retrying(event: Retrying) -> None:
    record("retry", id=event.id, attempt=event.attempt, delay=event.delay)


@lw.hooks.dead
async def died(event: Died) -> None:
    record("dead", id=event.id, task=event.task, error=repr(event.error))


@lw.hooks.snooze
def snoozed(event: Snoozed) -> None:
    record("snooze", id=event.id, task=event.task, attempt=event.attempt, delay=event.delay, current=current_job().id)


@lw.hooks.cancel
async def cancelled(event: Cancelled) -> None:
    await asyncio.sleep(0)
    record("cancel", id=event.id, task=event.task, attempt=event.attempt, current=current_job().id)


@lw.task
async def add(a: int, b: int = 1) -> int:
    record("ran", id=current_job().id)
    return a + b


@lw.task
def add_in_a_thread(a: int, b: int = 1) -> int:
    record("ran", id=current_job().id)
    return a + b


@lw.task(retries=1, backoff="10ms")
async def fails() -> None:
    record("ran", id=current_job().id)
    raise ValueError("never works")


@lw.task(retries=0)
async def returns_what_cannot_be_kept() -> Any:
    return object()


@lw.task(retries=0, timeout=0.1)
async def too_slow() -> None:
    await asyncio.sleep(60)


@lw.task
async def held(gate: str) -> None:
    record("ran", id=current_job().id)
    await opened(gate)
    record("through", id=current_job().id, at=time.time())


@lw.task
async def snoozes(path: str) -> int:
    """Snooze once."""
    record("ran", id=current_job().id)
    if not Path(path).exists():
        Path(path).touch()
        current_job().snooze("10ms")
    return current_job().attempt


@lw.task(retries=1, backoff=60)
def asks_again() -> None:
    record("ran", id=current_job().id)
    current_job().retry("10ms")


@lw.task
def held_in_a_thread() -> None:
    record("ran", id=current_job().id)
    while True:
        time.sleep(0.005)


@lw.task
async def stubborn(gate: str) -> str:
    """Finish despite a cancellation."""
    record("ran", id=current_job().id)
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        return "finished"
    return "never"


def never_end() -> None:
    while True:
        with contextlib.suppress(BaseException):
            time.sleep(60)


@lw.task(hard_timeout=1.2, retries=1, backoff="10ms")
def stubborn_thread() -> None:
    record("ran", id=current_job().id, attempt=current_job().attempt)
    never_end()


@lw.task(hard_timeout=1.2, retries=1, backoff=0)
async def blocks_the_loop() -> None:
    record("ran", id=current_job().id, attempt=current_job().attempt)
    never_end()


doubling = Lockwork()
"""A mutant, which the tests of failing hooks must detect: its hook enqueues the job again."""


@doubling.hooks.success
async def again(event: Succeeded) -> None:
    if event.result == 0:
        await once.aenqueue(1)


@doubling.task
async def once(number: int) -> int:
    record("ran", number=number)
    return number
