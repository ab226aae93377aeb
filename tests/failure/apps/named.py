"""Tasks of the named bugs. Each attempt first appends a line to the file `path`."""

from __future__ import annotations

import asyncio
import functools
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lockwork import Lockwork, current_job

lw = Lockwork()


def note(path: str, event: str) -> None:
    """Append a line in a single write, so that lines of several processes never mix."""
    job = current_job()
    line = {"event": event, "id": job.id, "attempt": job.attempt, "pid": os.getpid(), "at": time.time()}
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, json.dumps(line).encode() + b"\n")
    finally:
        os.close(file)


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
    while not Path(gate).exists():
        await asyncio.sleep(0.01)
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
