"""Tasks that ignore timeouts; they append their events to the file `path`."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterator
from typing import Annotated

from lockwork import Depends, JobContext, Lockwork
from lockwork.worker.execution import timeouts
from notes import append

lw = Lockwork()

AGAIN = 0.2
"""Seconds until a timeout is raised again in these tests."""


@lw.lifespan
def hurried() -> Iterator[None]:
    timeouts.AGAIN = AGAIN
    yield


def note(path: str, event: str) -> None:
    append(path, event, at=time.monotonic())


async def _swallow(path: str, times: int) -> None:
    for _ in range(times):
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            note(path, "raised")


def _swallow_in_thread(path: str, times: int) -> None:
    for _ in range(times):
        try:
            while True:
                time.sleep(0.005)
        except Exception:  # noqa: BLE001 - the fault that the test is about
            note(path, "raised")


@lw.task(timeout="100ms", retries=0)
async def swallows(path: str, times: int) -> int:
    await _swallow(path, times)
    return times


@lw.task(timeout="100ms", retries=0)
def swallows_in_thread(path: str, times: int) -> int:
    _swallow_in_thread(path, times)
    return times


@lw.task(timeout="100ms", retries=0, executor="process")
def swallows_in_runner(path: str, times: int) -> int:
    _swallow_in_thread(path, times)
    return times


@lw.task(timeout="100ms", retries=0, executor="process")
async def swallows_on_loop_of_runner(path: str, times: int) -> int:
    await _swallow(path, times)
    return times


@lw.task(timeout="100ms", retries=0, batch=1)
async def swallows_in_batch(items: list[tuple[str, int]]) -> list[int]:
    ((path, times),) = items
    await _swallow(path, times)
    return [times]


@lw.task(timeout="100ms", retries=0, batch=1)
def swallows_in_batch_in_thread(items: list[tuple[str, int]]) -> list[int]:
    ((path, times),) = items
    _swallow_in_thread(path, times)
    return [times]


@lw.task(timeout="100ms", retries=0)
async def gives_in_late(path: str) -> None:
    await _swallow(path, 1)
    await asyncio.sleep(60)


@lw.task(timeout="100ms", retries=0)
def fails_on_time() -> None:
    while True:
        time.sleep(0.005)


class _Slow:
    """A clean-up that lasts for several intervals between timeouts."""

    def __init__(self, path: str, what: str) -> None:
        self._path, self._what = path, what

    def close(self) -> None:
        for _ in range(100):
            time.sleep(AGAIN / 20)
        note(self._path, f"{self._what} closed")

    async def aclose(self) -> None:
        await asyncio.sleep(AGAIN * 5)
        note(self._path, f"{self._what} closed")


async def connection() -> AsyncIterator[_Slow]:
    made = _Slow(os.environ["HISTORY"], "connection")
    yield made
    await made.aclose()


def session() -> Iterator[_Slow]:
    made = _Slow(os.environ["HISTORY"], "session")
    try:
        yield made
    finally:
        made.close()


@lw.middleware
def surrounds(job: JobContext) -> Iterator[None]:
    try:
        yield
    finally:
        if job.task.startswith("provided"):
            _Slow(os.environ["HISTORY"], "middleware").close()


@lw.task(timeout="100ms", retries=0)
async def provided(path: str, session: Annotated[_Slow, Depends(session)]) -> int:
    await _swallow(path, 1)
    return 1


@lw.task(timeout="100ms", retries=0)
def provided_in_thread(path: str, session: Annotated[_Slow, Depends(session)]) -> int:
    _swallow_in_thread(path, 1)
    return 1


@lw.task(timeout="1s", retries=0)
async def holds_a_lock(path: str) -> None:
    async with lw.lock("guarded", lease="1m"):
        note(path, "holds")
        await asyncio.sleep(60)


@lw.hooks.success
def slow_hook(_event: object) -> None:
    """Do nothing; a worker with hooks takes another code path."""
