"""Tasks of the named bugs. Each attempt first appends a line to the file `path`."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Callable
from typing import Any

from gates import opened
from lockwork import Lockwork, current_job
from notes import note

lw = Lockwork()


@lw.task(retries=3, backoff=0)
async def mark(path: str) -> int:
    note(path, "ran")
    return current_job().attempt


@lw.task(retries=3, backoff=0)
async def sleeps(path: str, seconds: float) -> int:
    note(path, "ran")
    await asyncio.sleep(seconds)
    note(path, "done")
    return current_job().attempt


@lw.task(retries=3, backoff=0)
async def blocks_the_loop(path: str, seconds: float) -> int:
    note(path, "ran")
    time.sleep(seconds)  # noqa: ASYNC251 - that is the point
    note(path, "done")
    return current_job().attempt


@lw.task(retries=3, backoff=0)
def computes(path: str, seconds: float) -> int:
    note(path, "ran")
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sum(range(1000))
    note(path, "done")
    return current_job().attempt


@lw.task(retries=3, backoff=0)
async def gated(path: str, gate: str) -> int:
    note(path, "ran")
    await opened(gate)
    return current_job().attempt


def plainly(function: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator for functions that does not support coroutines."""

    @functools.wraps(function)
    def call(*args: Any) -> Any:
        return function(*args)

    return call


@lw.task(retries=0)
@plainly
async def hidden(path: str) -> int:
    note(path, "ran")
    return 1


@lw.task(retries=0, keep_result=False)
@plainly
async def hidden_without_a_result(path: str) -> None:
    note(path, "ran")
