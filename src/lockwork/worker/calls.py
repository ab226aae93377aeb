"""Calling a task's function: as it is, with what it depends on, in a thread, within its time limit."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

from lockwork.injection.calling import Caller
from lockwork.tasks import Task
from lockwork.worker.threads import JobThreads, JobTimeout


async def call(
    task: Task[Any, Any, Any],
    args: list[Any],
    kwargs: dict[str, Any],
    timeout: float | None,
    threads: JobThreads,
    caller: Caller,
) -> Any:
    """Call any task's function, and return what it returns."""
    if task.injected:
        return await caller.call(
            task.function, task.injection, args, kwargs, is_async=task.is_async, timeout=timeout, threads=threads
        )
    if not task.is_async:
        return await threads.run(task.function, args, kwargs, timeout)
    if timeout is None:
        return await task.function(*args, **kwargs)
    return await limited(task.function(*args, **kwargs), timeout)


async def limited(awaitable: Awaitable[Any], timeout: float) -> Any:
    """Await, at most so long; raises JobTimeout."""
    limit = asyncio.timeout(timeout)
    try:
        async with limit:
            return await awaitable
    except TimeoutError:
        if limit.expired():
            raise JobTimeout(f"it took longer than {timeout:g} s") from None
        raise
