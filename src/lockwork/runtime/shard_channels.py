"""The channels of a process on a Cluster: one per slot in which something is waited for, and who waits there.

A channel is subscribed when the first waiter comes, which has asked the server before. So its waiters check again each
time that a subscription is confirmed: what was sent in between reached nobody.
"""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict, deque
from collections.abc import Iterator
from contextlib import contextmanager

from lockwork.protocol.slots import of_key
from lockwork.runtime.clock import now
from lockwork.runtime.wakeups import Mailboxes

LINGER: float = 1.0
"""Seconds for which a channel stays subscribed when nobody waits there: a wait that follows soon need not subscribe."""
_JUST = 1.0
"""Seconds that may pass from a caller's question to the server until it waits."""


class ShardChannel:
    """One sharded channel."""

    __slots__ = ("confirmed_at", "name", "slot", "tickets", "told")

    def __init__(self, name: str) -> None:
        self.name: str = name
        self.slot: int = of_key(name)
        self.tickets: Counter[str] = Counter()
        """What is waited for there, and by how many."""
        self.confirmed_at: float = float("-inf")
        self.told: set[str] = set()
        """Tickets whose waiters have looked again since then."""


class ShardChannels:
    """The channels of the engine's process: waiters enter and leave on any thread, the engine's thread subscribes."""

    def __init__(self, mail: Mailboxes) -> None:
        self._mail = mail
        self._lock = threading.Lock()
        self._channels: dict[str, ShardChannel] = {}
        self._unused: OrderedDict[str, float] = OrderedDict()
        """Channels where nobody waits, by since when."""
        self._new: deque[ShardChannel] = deque()

    @contextmanager
    def waiting(self, name: str, ticket: str) -> Iterator[bool]:
        """Wait for `ticket` on a channel within the block; its value is whether to look at once instead."""
        missed = self.enter(name, ticket)
        try:
            yield missed
        finally:
            self.leave(name, ticket)

    def enter(self, name: str, ticket: str) -> bool:
        """Begin to wait; returns whether the message may have been sent just before the channel was subscribed."""
        with self._lock:
            channel = self._channels.get(name)
            if channel is None:
                channel = self._channels[name] = ShardChannel(name)
                self._new.append(channel)
            self._unused.pop(name, None)
            channel.tickets[ticket] += 1
            if ticket in channel.told or now() - channel.confirmed_at > _JUST:
                return False
            channel.told.add(ticket)
            return True

    def leave(self, name: str, ticket: str) -> None:
        """Wait no more."""
        with self._lock:
            channel = self._channels[name]
            channel.tickets[ticket] -= 1
            if not channel.tickets[ticket]:
                del channel.tickets[ticket]
            if not channel.tickets:
                self._unused[name] = now()

    def confirmed(self, name: str) -> None:
        """The channel is subscribed from now on: its waiters check again."""
        with self._lock:
            channel = self._channels.get(name)
            if channel is None:
                return
            channel.confirmed_at, channel.told = now(), set(channel.tickets)
            tickets = list(channel.tickets)
        self._mail.wake(tickets)

    @property
    def fresh(self) -> bool:
        """Whether there are channels that `taken` will return."""
        return bool(self._new)

    def taken(self) -> tuple[list[ShardChannel], list[ShardChannel]]:
        """Return the channels to subscribe, and those to drop."""
        with self._lock:
            new = list(self._new)
            self._new.clear()
            dropped: list[ShardChannel] = []
            while self._unused:
                name, since = next(iter(self._unused.items()))
                if now() - since < LINGER:
                    break
                del self._unused[name]
                dropped.append(self._channels.pop(name))
            return new, dropped

    def next_event(self) -> float | None:
        """When a channel is to be dropped, None if none is."""
        with self._lock:
            return next(iter(self._unused.values())) + LINGER if self._unused else None
