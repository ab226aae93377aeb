"""Who holds a lock inside this process: the current asyncio task, else the current thread; children do not inherit."""

from __future__ import annotations

import asyncio
import itertools
import threading
import weakref
from typing import Any

from lockwork.protocol.locks.overview import plain

_count = itertools.count(1)
_threads = threading.local()
_tasks: weakref.WeakKeyDictionary[asyncio.Task[Any], Owner] = weakref.WeakKeyDictionary()


class Owner:
    """A task or thread; no other one of this process has had or will have the same `text`: a number and a name."""

    __slots__ = ("text",)

    def __init__(self, name: str) -> None:
        self.text: str = f"{next(_count)}:{plain(name)}"


def current() -> Owner:
    """Return who runs now."""
    if asyncio._get_running_loop() is not None:  # noqa: SLF001 - documented for this use, and cheaper than an exception
        task = asyncio.current_task()
        if task is not None:
            owner = _tasks.get(task)
            if owner is None:
                owner = _tasks[task] = Owner(task.get_name())
            return owner
    try:
        return _threads.owner  # type: ignore[no-any-return]
    except AttributeError:
        _threads.owner = owner = Owner(threading.current_thread().name)
        return owner


def renew_task(task: asyncio.Task[Any]) -> None:
    """Let the task count as a new owner from now on: a worker's task serves one job after the other."""
    if task in _tasks:
        del _tasks[task]


def renew_thread() -> None:
    """The same for the current thread of a worker's pool."""
    if hasattr(_threads, "owner"):
        del _threads.owner
