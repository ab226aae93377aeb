"""The owner of a lock within this process: the current asyncio task, or else the thread; children do not inherit."""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from lockwork.lazy import asyncio, running_loop
from lockwork.protocol.locks.overview import plain

_count = itertools.count(1)
_threads = threading.local()
_tasks: weakref.WeakKeyDictionary[asyncio.Task[Any], Owner] = weakref.WeakKeyDictionary()


class Owner:
    """An asyncio task or thread; `text`, a number and its name, is unique within the process.

    An owner of this base class is another part of the program, and lasts until `end` is called.
    """

    __slots__ = ("described", "ended", "text")
    noun = "owner"

    def __init__(self, name: str) -> None:
        self.text: str = f"{next(_count)}:{plain(name)}"
        self.described: str = f"{self.noun} {name!r}"
        """The owner as warnings name it."""
        self.ended: bool = False

    def end(self, described: str) -> None:
        """Note that the owner has ended; `described` names the job or scope that acquired its grants, for warnings."""
        self.described = described
        self.ended = True

    @property
    def gone(self) -> bool:
        """True if the owner has ended, so that it cannot release grants any more."""
        return self.ended

    def detach(self) -> None:
        """Let the owner last until `end` is called, even if its thread or asyncio task ends before."""

    def acts_for(self, owner: Owner) -> bool:
        """Return True if `owner` acquired the grants of this owner."""
        return self is owner


class _ThreadLife:
    """A token that only its thread refers to."""

    __slots__ = ("__weakref__",)


class ThreadOwner(Owner):
    """A running thread, even if Python did not start it."""

    __slots__ = ("_life",)
    noun = "thread"

    def __init__(self, name: str, life: _ThreadLife) -> None:
        super().__init__(name)
        self._life: weakref.ref[_ThreadLife] | None = weakref.ref(life)

    @property
    def gone(self) -> bool:
        """True if the thread has ended."""
        life = self._life
        return self.ended or (life is not None and life() is None)

    def detach(self) -> None:
        self._life = None


class TaskOwner(Owner):
    """An asyncio task until it is done."""

    __slots__ = ("_task",)
    noun = "asyncio task"

    def __init__(self, task: asyncio.Task[Any]) -> None:
        super().__init__(task.get_name())
        self._task: weakref.ref[asyncio.Task[Any]] | None = weakref.ref(task)

    @property
    def gone(self) -> bool:
        """True if the asyncio task is done, or can never continue."""
        reference = self._task
        if reference is None:
            return self.ended
        task = reference()
        return self.ended or task is None or task.done() or task.get_loop().is_closed()

    def detach(self) -> None:
        self._task = None


def current() -> Owner:
    """Return the current owner."""
    if running_loop() is not None:
        task = asyncio.current_task()
        if task is not None:
            owner = _tasks.get(task)
            if owner is None:
                owner = _tasks[task] = TaskOwner(task)
            return owner
    try:
        return _threads.owner  # type: ignore[no-any-return]
    except AttributeError:
        life = _threads.life = _ThreadLife()
        _threads.owner = owner = ThreadOwner(threading.current_thread().name, life)
        return owner


def detach_task(task: asyncio.Task[Any]) -> Owner | None:
    """Make the asyncio task a new owner: a worker's slot runs one job after another in it.

    Return the old owner, which lasts until its `end` is called; None if there is none.
    """
    if task not in _tasks:
        return None
    owner = _tasks.pop(task)
    owner.detach()
    return owner


def detach_thread() -> Owner | None:
    """Make the current thread a new owner, as `detach_task`: a thread of a worker's pool runs one job after another."""
    owner: Owner | None = getattr(_threads, "owner", None)
    if owner is not None:
        del _threads.owner
        owner.detach()
    return owner


@contextmanager
def acting_as(owner: Owner) -> Iterator[None]:
    """Within the block, let the current asyncio task or thread be `owner`."""
    task = asyncio.current_task() if running_loop() is not None else None
    if task is not None:
        before = _tasks.pop(task, None)
        _tasks[task] = owner
        try:
            yield
        finally:
            del _tasks[task]
            if before is not None:
                _tasks[task] = before
        return
    mine = getattr(_threads, "owner", None)
    _threads.owner = owner
    try:
        yield
    finally:
        del _threads.owner
        if mine is not None:
            _threads.owner = mine
