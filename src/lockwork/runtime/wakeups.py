"""The waiters of this process, threads and coroutines, and the wake-up for each."""

from __future__ import annotations

import contextlib
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from typing import Protocol

from lockwork.lazy import asyncio, running_loop
from lockwork.protocol.effects import Call
from lockwork.runtime.clock import now
from lockwork.runtime.leader import Leadership, ThreadBox

OnLong = Callable[[], None]
_KEPT = 1000
_KEPT_SIZE = 1 << 20
"""Maximum characters of all stored messages, including tickets."""
_LONG = 0.9
"""Minimum seconds of a long wait: slightly less than a second, because a waiter checks again after a second."""
_JUST = 1.0
"""Maximum seconds between a caller's request to the server and the opening of its mailbox."""


class UsedNames(Protocol):
    """Records the names in a driver's calls; see `NameIndex`."""

    def used(self, call: Call) -> None:
        """Record the names that a call has used."""

    def forget(self) -> None:
        """Add each name again at its next use: the server may have lost its data."""

    def own(self, kind: str) -> list[str]:
        """Return the names of a kind that this process is about to add."""
        ...


class WakeupSource(Protocol):
    """The part of the engine that a driver needs: the wake-ups of this process, and the names that it uses."""

    @property
    def names(self) -> UsedNames:
        """Names that this process uses."""
        ...

    def wait(
        self,
        ticket: str,
        until: float,
        key: str | None = None,
        sent: float | None = None,
        held: tuple[str, ...] = (),
    ) -> str | None:
        """Block until a message for `ticket` from the scripts of `key` arrives, or until the clock reaches `until`.

        sent, held: see `effects.Park`.
        """

    async def async_wait(
        self,
        ticket: str,
        until: float,
        key: str | None = None,
        sent: float | None = None,
        held: tuple[str, ...] = (),
    ) -> str | None:
        """Async version of `wait`."""


class Follower:
    """Collects the messages to many tickets for one waiter, which waits for its own `ticket`."""

    __slots__ = ("arrived", "missed", "ticket", "tickets")

    def __init__(self, ticket: str) -> None:
        self.ticket: str = ticket
        self.tickets: set[str] = set()
        """The tickets to follow; more may be added, and others removed."""
        self.arrived: deque[str] = deque()
        """Tickets of the messages that have arrived."""
        self.missed: bool = False
        """True if messages may have been lost, so the waiter must check all tickets."""

    def add(self, ticket: str) -> None:
        """Record a message. Anyone may send messages, so beyond the number of tickets, the waiter checks all."""
        if len(self.arrived) > 2 * len(self.tickets):
            self.missed = True
        else:
            self.arrived.append(ticket)


class Mailboxes:
    """Delivers each message to all waiters for its ticket; stores an early message for the next waiter.

    The mailboxes have no lock, because a signal handler may wait for a message while it interrupts a waiter in this
    class. Each side first writes and then reads the other side's data, so no message is lost between them.
    """

    def __init__(self, leadership: Leadership | None = None) -> None:
        self._leadership = leadership
        self._boxes: dict[str, list[Callable[[str], None]]] = {}
        self._early: OrderedDict[str, str] = OrderedDict()
        self._size = 0
        """Characters in `_early`."""
        self._missed = float("-inf")
        self._told: set[str] = set()
        self._followers: dict[Follower, None] = {}

    def follow(self, follower: Follower) -> None:
        """Collect the messages to the tickets of a follower, until `unfollow`."""
        self._followers[follower] = None

    def unfollow(self, follower: Follower) -> None:
        """Stop collecting messages for a follower."""
        self._followers.pop(follower, None)
        self._taken_early(follower.ticket)

    def open(
        self, ticket: str, deliver: Callable[[str], None], *, missed: bool = False, sent: float | None = None
    ) -> str | None:
        """Register a waiter; return an early message instead, if there is one, without registering.

        missed: its message may have been lost, so it must check again at once.
        sent: time of sending of the call that requested the message.
        """
        waiting = self._boxes.setdefault(ticket, [])
        waiting.append(deliver)
        early = self._taken_early(ticket)
        after_loss = sent is not None and sent > self._missed
        if early is None and not after_loss and ticket not in self._told and now() - self._missed < _JUST:
            # its message may be among the lost ones: its caller called the server before the loss
            self._told.add(ticket)
            early = ""
        if early is None and (missed or self._boxes.get(ticket) is not waiting):
            early = ""  # the list was replaced: a message for all its waiters arrived just now
        if early is not None:
            self.close(ticket, deliver)
        return early

    def close(self, ticket: str, deliver: Callable[[str], None]) -> None:
        """Remove a waiter."""
        waiting = self._boxes.get(ticket)
        if waiting is None:
            return
        with contextlib.suppress(ValueError):
            waiting.remove(deliver)
        if not waiting:
            # a waiter that registered just now, in the removed list, checks again
            for late in self._boxes.pop(ticket, ()):
                late("")

    def deliver(self, ticket: str, text: str) -> None:
        """Deliver a message."""
        if self._followers:
            self._collect(ticket, text)
        waiting = self._boxes.pop(ticket, None)
        if not waiting:
            self._store(ticket, text)
            waiting = self._boxes.pop(ticket, None)
            if waiting:
                self._taken_early(ticket)  # the waiters registered meanwhile
        for deliver in waiting or ():
            deliver(text)

    def _collect(self, ticket: str, text: str) -> None:
        """Deliver a message to the followers of a ticket; no text for a follower's own ticket means a loss."""
        for follower in list(self._followers):
            if ticket == follower.ticket:
                follower.missed = follower.missed or not text
            elif ticket in follower.tickets:
                follower.add(ticket)
                self.deliver(follower.ticket, "look")

    def _store(self, ticket: str, text: str) -> None:
        self._taken_early(ticket)
        size = len(ticket) + len(text)
        self._early[ticket] = text
        # CPython switches threads only at calls and jumps, so this needs no lock
        self._size += size
        while len(self._early) > _KEPT or self._size > _KEPT_SIZE:
            try:
                oldest, dropped = self._early.popitem(last=False)
            except KeyError:
                self._size = 0
                return
            size = len(oldest) + len(dropped)
            self._size -= size

    def _taken_early(self, ticket: str) -> str | None:
        text = self._early.pop(ticket, None)
        if text is not None:
            size = len(ticket) + len(text)
            self._size -= size
        return text

    def wait(
        self,
        ticket: str,
        until: float,
        *,
        missed: bool = False,
        sent: float | None = None,
        long: OnLong | None = None,
    ) -> str | None:
        """Block until a message for `ticket` arrives or the clock reaches `until`; call `long` in a long wait."""
        box = ThreadBox(self._leadership)
        early = self.open(ticket, box.deliver, missed=missed, sent=sent)
        if early is not None:
            return early
        try:
            if long is not None and until - now() > _LONG:
                if (text := box.wait(_LONG)) is not None:
                    return text
                long()
            return box.wait(until - now())
        finally:
            self.close(ticket, box.deliver)
            box.end()

    async def async_wait(
        self,
        ticket: str,
        until: float,
        *,
        missed: bool = False,
        sent: float | None = None,
        long: OnLong | None = None,
    ) -> str | None:
        """Async version of `wait`."""
        box = TaskBox()
        early = self.open(ticket, box.deliver, missed=missed, sent=sent)
        if early is not None:
            return early
        try:
            return await box.wait(until - now(), long if until - now() > _LONG else None)
        finally:
            self.close(ticket, box.deliver)

    def wake(self, tickets: Iterable[str]) -> None:
        """Make the waiters of these tickets check again, because their messages may have been lost."""
        for ticket in tickets:
            if ticket in self._early:
                if self._followers:
                    self._collect(ticket, "")
                continue
            self.deliver(ticket, "")  # a waiter that is about to open its mailbox finds it there

    def wake_all(self) -> None:
        """Make all waiters check again, because messages may have been lost."""
        self._missed = now()  # set first: a waiter that registers from now on checks again
        for follower in list(self._followers):
            follower.missed = True
            self.deliver(follower.ticket, "look")
        boxes, self._boxes = self._boxes, {}
        self._told = set(boxes)
        for waiting in list(boxes.values()):
            for deliver in waiting:
                deliver("")


class TaskBox:
    """The wait of one asyncio task."""

    __slots__ = ("_future", "_loop")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._future: asyncio.Future[str | None] = self._loop.create_future()

    def deliver(self, text: str) -> None:
        """Wake the asyncio task, from any thread."""
        if running_loop() is self._loop:
            self._set(text)
            return
        with contextlib.suppress(RuntimeError):  # its loop is closed, so no asyncio task waits there
            self._loop.call_soon_threadsafe(self._set, text)

    def _set(self, text: str | None) -> None:
        if not self._future.done():
            self._future.set_result(text)

    async def wait(self, seconds: float, long: OnLong | None = None) -> str | None:
        """Wait for the message for at most `seconds`; call `long` in a long wait."""
        timer = self._loop.call_later(max(0.0, seconds), self._set, None)
        late = None if long is None else self._loop.call_later(_LONG, long)
        try:
            return await self._future
        finally:
            timer.cancel()
            if late is not None:
                late.cancel()
