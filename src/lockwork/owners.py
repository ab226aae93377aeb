"""The owner of a lock within this process: the current asyncio task, or else the thread; children do not inherit."""

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
    """An asyncio task or thread; `text`, a number and its name, is unique within the process."""

    __slots__ = ("text",)

    def __init__(self, name: str) -> None:
        self.text: str = f"{next(_count)}:{plain(name)}"


def current() -> Owner:
    """Return the current owner."""
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
    """Make the asyncio task a new owner: a worker's slot runs one job after another in it."""
    if task in _tasks:
        del _tasks[task]


def renew_thread() -> None:
    """Make the current thread a new owner: a thread of a worker's pool runs one job after another."""
    if hasattr(_threads, "owner"):
        del _threads.owner
