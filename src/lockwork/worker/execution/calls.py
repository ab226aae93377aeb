"""Calls a task's function: directly or in a thread, with its dependencies, within its time limit."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from types import CoroutineType
from typing import Any

from lockwork.errors import JobTimeout
from lockwork.injection.calling import Caller
from lockwork.tasks.task import Task
from lockwork.worker.execution.threads import JobThreads


async def call(
    task: Task[Any, Any, Any],
    args: list[Any],
    kwargs: dict[str, Any],
    timeout: float | None,
    threads: JobThreads,
    caller: Caller,
) -> Any:
    """Call a task's function and return its result."""
    try:
        if task.injected:
            value = await caller.call(
                task.function, task.injection, args, kwargs, is_async=task.is_async, timeout=timeout, threads=threads
            )
            return _finished(value, task)
        if not task.is_async:
            return _finished(await threads.run(task.function, args, kwargs, timeout), task)
        if timeout is None:
            return await task.function(*args, **kwargs)
        return await limited(task.function(*args, **kwargs), timeout)
    except JobTimeout as error:
        if timeout is not None:
            # a thread is interrupted by a class, which does not know, and what was provided took some of the time
            error.args = (_too_long(timeout),)
        raise


def _finished(value: Any, task: Task[Any, Any, Any]) -> Any:
    """Refuse a coroutine as a result: it has not run."""
    if type(value) is not CoroutineType:
        return value
    value.close()
    raise TypeError(
        f"task {task.name!r} returned a coroutine that nobody awaits: its function is async, "
        "and so must be that of the decorator around it"
    )


async def limited(awaitable: Awaitable[Any], timeout: float) -> Any:
    """Await for at most `timeout` seconds; raises JobTimeout."""
    limit = asyncio.timeout(timeout)
    try:
        async with limit:
            return await awaitable
    except TimeoutError:
        if limit.expired():
            raise JobTimeout(_too_long(timeout)) from None
        raise


def _too_long(timeout: float) -> str:
    return f"it took longer than {timeout:g} s"
