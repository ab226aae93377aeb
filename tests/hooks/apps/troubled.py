"""Hooks that fail in every way; the jobs run and end as without hooks."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from lockwork import Lockwork, current_job
from notes import record

lw = Lockwork()

PROBLEMS: dict[str, Any] = {
    "error": ValueError,
    "exit": SystemExit,
    "interrupt": KeyboardInterrupt,
    "cancelled": asyncio.CancelledError,
    "generator": GeneratorExit,
    "stop": StopAsyncIteration,
    "base": BaseException,
}


def trouble(event: Any) -> None:
    what = os.environ["TROUBLE"]
    if what != "none":
        raise PROBLEMS[what]("a hook's own problem")


async def async_trouble(event: Any) -> None:
    trouble(event)


for register in (lw.hooks.start, lw.hooks.success, lw.hooks.failure, lw.hooks.retry, lw.hooks.dead):
    register(trouble)
    register(async_trouble)
    register(lambda event: async_trouble(event))


@lw.hooks.success
def last(event: Any) -> None:
    record("success", id=event.id)


@lw.hooks.dead
async def last_dead(event: Any) -> None:
    record("dead", id=event.id)


@lw.task
async def add(a: int, b: int) -> int:
    record("ran", id=current_job().id, attempt=current_job().attempt)
    return a + b


@lw.task(retries=1, backoff="10ms")
def fails() -> None:
    record("ran", id=current_job().id, attempt=current_job().attempt)
    raise KeyError("never works")
