"""Jobs that fork, and whose copies return from the task. Each job returns its copy's status in the format of `os.wait`.

`path` is a file; each process appends a line where only the worker's own process should run.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Annotated

from lockwork import Depends, Lockwork
from lockwork.hooks import Succeeded
from lockwork.jobs.current import JobContext

lw = Lockwork()
PATH = Path(os.environ["FORKED"])


def note(event: str) -> None:
    with PATH.open("a") as file:
        file.write(f"{event} {os.getpid()}\n")


def provided() -> Iterator[int]:
    yield os.getpid()
    note("cleaned")


async def aprovided() -> AsyncIterator[int]:
    yield os.getpid()
    note("cleaned")


@lw.hooks.success
def succeeded(event: Succeeded) -> None:
    note("hook")


def status_of(copy: int) -> int:
    """Wait at most 20 s, so that a copy that stays fails the test."""
    for _ in range(2000):
        ended, status = os.waitpid(copy, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(copy, 9)
    os.waitpid(copy, 0)
    raise TimeoutError("the copy did not end")


def ends(how: str) -> int:
    if how == "raises":
        raise LookupError("in the copy")
    if how == "exits":
        sys.exit(7)
    return 5


def forked(how: str) -> int:
    copy = os.fork()
    return status_of(copy) if copy else ends(how)


@lw.task(retries=0)
async def on_loop(how: str) -> int:
    return forked(how)


@lw.task(retries=0, timeout=60)
async def on_loop_limited(how: str) -> int:
    return forked(how)


@lw.task(retries=0)
async def on_loop_injected(how: str, own: Annotated[int, Depends(aprovided)]) -> int:
    return forked(how)


@lw.task(retries=0)
def in_thread(how: str) -> int:
    return forked(how)


@lw.task(retries=0, timeout=60)
def in_thread_injected(how: str, own: Annotated[int, Depends(provided)]) -> int:
    return forked(how)


@lw.task(retries=0, batch=2)
def batched(how: list[str]) -> list[int]:
    return [forked(one) for one in how]


@lw.task(retries=0, batch=2)
async def abatched(how: list[str]) -> list[int]:
    return [forked(one) for one in how]


@lw.task(retries=0, executor="process")
def in_runner(how: str) -> int:
    return forked(how)


@lw.task(retries=0, executor="process")
async def on_loop_of_runner(how: str) -> int:
    return forked(how)


@lw.task(retries=0)
async def awaits_in_copy() -> int:
    copy = os.fork()
    if copy:
        return status_of(copy)
    await asyncio.sleep(0)
    note("after await")
    return 5


def works() -> None:
    sys.exit(9)


@lw.task(retries=0)
def by_multiprocessing() -> int | None:
    process = multiprocessing.get_context("fork").Process(target=works)
    process.start()
    process.join(20)
    return process.exitcode


@lw.task
async def ping() -> int:
    return os.getpid()


if os.environ.get("MIDDLEWARES"):

    @lw.middleware
    async def around(job: JobContext) -> AsyncIterator[None]:
        yield
        note("middleware")
