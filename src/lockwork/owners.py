"""Who holds a lock inside this process: the current asyncio task, else the current thread; children do not inherit."""

from __future__ import annotations

import asyncio
import itertools
import threading
import weakref
from typing import Any

_count = itertools.count(1)
_threads = threading.local()
_tasks: weakref.WeakKeyDictionary[asyncio.Task[Any], int] = weakref.WeakKeyDictionary()


def current() -> int:
    """Return a number that no other task or thread of this process has had or will have."""
    if asyncio._get_running_loop() is not None:  # noqa: SLF001 - documented for this use, and cheaper than an exception
        task = asyncio.current_task()
        if task is not None:
            number = _tasks.get(task)
            if number is None:
                number = _tasks[task] = next(_count)
            return number
    try:
        return _threads.number  # type: ignore[no-any-return]
    except AttributeError:
        _threads.number = number = next(_count)
        return number


def renew_task(task: asyncio.Task[Any]) -> None:
    """Let the task count as a new owner from now on: a worker's task serves one job after the other."""
    if task in _tasks:
        del _tasks[task]


def renew_thread() -> None:
    """The same for the current thread of a worker's pool."""
    if hasattr(_threads, "number"):
        del _threads.number
