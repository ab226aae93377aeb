"""The app that the benchmarks' worker runs: tasks that do nothing, and one that says when it began."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from lockwork import JobContext, Lockwork, Task


def register(lw: Lockwork) -> Task[Any, Any, Any]:
    """Register the task that does nothing."""

    async def nothing(_number: int) -> None:
        """A job that costs nothing but its handling."""

    return lw.task(name="nothing", keep_result=False)(nothing)


@contextmanager
def bench_app(url: str, partitions: int = 0) -> Iterator[tuple[Lockwork, Task[Any, Any, Any]]]:
    """An app of its own for one measurement."""
    with Lockwork(url, partitions={"default": partitions} if partitions else {}) as lw:
        yield lw, register(lw)


def idle(_number: int) -> None:
    """The same in a thread."""


lw = Lockwork(os.environ.get("LOCKWORK_URL", "redis://localhost:6379"))
register(lw)
lw.task(name="idle", keep_result=False)(idle)


@lw.task(queue="latency")
async def began() -> float:
    """When this job began, on the clock that all processes of a machine share."""
    return time.monotonic()


sharded = Lockwork(
    os.environ.get("LOCKWORK_URL", "redis://localhost:6379"),
    partitions={"default": int(os.environ.get("BENCH_PARTITIONS", "1"))},
)
"""The same with partitions."""
register(sharded)


surrounded = Lockwork(os.environ.get("LOCKWORK_URL", "redis://localhost:6379"))
"""The same with a middleware that does nothing."""
register(surrounded)


@surrounded.middleware
def _around(_job: JobContext) -> Iterator[None]:
    yield
