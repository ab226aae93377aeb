"""The waiters of this process, threads and coroutines alike, and the wake-up that each waits for."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Protocol

from lockwork.runtime.clock import now

_KEPT = 1000
_KEPT_SIZE = 1 << 20
"""Characters in all messages that are kept, tickets included."""
_JUST = 1.0
"""Seconds that may pass from a caller's question to the server until its mailbox is open."""


class WakeupSource(Protocol):
    """What a driver needs of the object that receives this process's wake-ups."""

    def wait(self, ticket: str, until: float, key: str | None = None) -> str | None:
        """Block until a message for `ticket`, from the scripts of `key`, has come, or the clock shows `until`."""

    async def async_wait(self, ticket: str, until: float, key: str | None = None) -> str | None:
        """Async version of `wait`."""


class Mailboxes:
    """Delivers each message to all waiters for its ticket; one that came too early is stored for the next waiter."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._boxes: dict[str, list[Callable[[str], None]]] = {}
        self._early: OrderedDict[str, str] = OrderedDict()
        self._size = 0
        """Characters in `_early`."""
        self._missed = float("-inf")
        self._told: set[str] = set()

    def open(self, ticket: str, deliver: Callable[[str], None], *, missed: bool = False) -> str | None:
        """Register a waiter; returns a message that came early instead, and then nothing is registered.

        `missed`: its message may have been lost, so it must check again at once.
        """
        with self._lock:
            early = self._early.pop(ticket, None)
            if early is not None:
                self._size -= len(ticket) + len(early)
            if early is None and ticket not in self._told and now() - self._missed < _JUST:
                # its message may have been among the lost ones: its caller asked the server before that
                self._told.add(ticket)
                return ""
            if early is None and missed:
                return ""
            if early is None:
                self._boxes.setdefault(ticket, []).append(deliver)
            return early

    def close(self, ticket: str, deliver: Callable[[str], None]) -> None:
        """Remove a waiter."""
        with self._lock:
            waiting = self._boxes.get(ticket, [])
            if deliver in waiting:
                waiting.remove(deliver)
            if not waiting:
                self._boxes.pop(ticket, None)

    def deliver(self, ticket: str, text: str) -> None:
        """Hand a message over."""
        with self._lock:
            waiting = self._boxes.pop(ticket, None)
            if waiting is None:
                known = self._early.pop(ticket, None)
                self._early[ticket] = text
                self._size += len(ticket) + len(text) - (len(ticket) + len(known) if known is not None else 0)
                while len(self._early) > _KEPT or self._size > _KEPT_SIZE:
                    oldest, dropped = self._early.popitem(last=False)
                    self._size -= len(oldest) + len(dropped)
        for deliver in waiting or ():
            deliver(text)

    def wait(self, ticket: str, until: float, *, missed: bool = False) -> str | None:
        """Block until a message for `ticket` has come, or the clock shows `until`."""
        box = ThreadBox()
        early = self.open(ticket, box.deliver, missed=missed)
        if early is not None:
            return early
        try:
            return box.wait(until - now())
        finally:
            self.close(ticket, box.deliver)

    async def async_wait(self, ticket: str, until: float, *, missed: bool = False) -> str | None:
        """Async version of `wait`."""
        box = TaskBox()
        early = self.open(ticket, box.deliver, missed=missed)
        if early is not None:
            return early
        try:
            return await box.wait(until - now())
        finally:
            self.close(ticket, box.deliver)

    def wake(self, tickets: Iterable[str]) -> None:
        """Messages to these tickets may have been lost: let their waiters check again."""
        woken: list[Callable[[str], None]] = []
        with self._lock:
            for ticket in tickets:
                waiting = self._boxes.pop(ticket, None)
                woken += waiting or ()
                if waiting is None and ticket not in self._early:
                    self._early[ticket] = ""  # its waiter is about to open its mailbox
                    self._size += len(ticket)
        for deliver in woken:
            deliver("")

    def wake_all(self) -> None:
        """Messages may have been lost: let everybody check again."""
        with self._lock:
            boxes, self._boxes = self._boxes, {}
            self._missed, self._told = now(), set(boxes)
        for waiting in boxes.values():
            for deliver in waiting:
                deliver("")


class ThreadBox:
    """Where one thread waits."""

    __slots__ = ("_lock", "text")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()
        self.text: str | None = None

    def deliver(self, text: str) -> None:
        """Wake the thread, once."""
        if self.text is None:
            self.text = text
            self._lock.release()

    def wait(self, seconds: float) -> str | None:
        """Wait for the message, at most `seconds`."""
        self._lock.acquire(timeout=max(0.0, seconds))
        return self.text


class TaskBox:
    """Where one asyncio task waits."""

    __slots__ = ("_future", "_loop")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._future: asyncio.Future[str | None] = self._loop.create_future()

    def deliver(self, text: str) -> None:
        """Wake the task, from any thread."""
        if asyncio._get_running_loop() is self._loop:  # noqa: SLF001 - documented
            self._set(text)
            return
        with contextlib.suppress(RuntimeError):  # its loop is closed, and no task waits there any more
            self._loop.call_soon_threadsafe(self._set, text)

    def _set(self, text: str | None) -> None:
        if not self._future.done():
            self._future.set_result(text)

    async def wait(self, seconds: float) -> str | None:
        """Wait for the message, at most `seconds`."""
        timer = self._loop.call_later(max(0.0, seconds), self._set, None)
        try:
            return await self._future
        finally:
            timer.cancel()
