"""The channels of a process on a Cluster: one per slot with waiters.

A channel is subscribed after its first waiter has called the server. Messages published in between are lost. Therefore
its waiters check again each time a subscription is confirmed.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Iterator
from contextlib import contextmanager

from lockwork.protocol.slots import of_key
from lockwork.runtime.clock import now
from lockwork.runtime.reentry import entered_once, new_lock
from lockwork.runtime.wakeups import Mailboxes

LINGER: float = 1.0
"""Seconds that a channel without waiters stays subscribed: the next wait can reuse it."""
_JUST = 1.0
"""Maximum seconds between a caller's request to the server and its wait."""


class ShardChannel:
    """One sharded channel."""

    __slots__ = ("confirmed_at", "name", "slot", "tickets", "told")

    def __init__(self, name: str) -> None:
        self.name: str = name
        self.slot: int = of_key(name)
        self.tickets: Counter[str] = Counter()
        """Tickets of the channel, with the number of their waiters."""
        self.confirmed_at: float = float("-inf")
        self.told: set[str] = set()
        """Tickets whose waiters have checked again since then."""


class ShardChannels:
    """The channels of the engine's process: waiters enter and leave on any thread, the engine's thread subscribes."""

    def __init__(self, mail: Mailboxes) -> None:
        self._mail = mail
        self._lock = new_lock()
        self._channels: dict[str, ShardChannel] = {}
        self._unused: OrderedDict[str, float] = OrderedDict()
        """Channels without waiters, with the time of the last one."""
        self._new: deque[ShardChannel] = deque()

    @contextmanager
    def waiting(self, name: str, ticket: str) -> Iterator[bool]:
        """Wait for `ticket` on a channel within the block; yields True if the caller must check at once instead."""
        with entered_once(self._lock):
            missed = self.enter(name, ticket)
        try:
            yield missed
        finally:
            self.leave(name, ticket)

    def enter(self, name: str, ticket: str) -> bool:
        """Begin to wait; return True if the message may have been sent just before the subscription."""
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
        """Stop waiting."""
        with self._lock:
            channel = self._channels[name]
            channel.tickets[ticket] -= 1
            if not channel.tickets[ticket]:
                del channel.tickets[ticket]
            if not channel.tickets:
                self._unused[name] = now()

    def confirmed(self, name: str) -> None:
        """Wake the waiters of a channel that is subscribed from now on: they check again."""
        with self._lock:
            channel = self._channels.get(name)
            if channel is None:
                return
            channel.confirmed_at, channel.told = now(), set(channel.tickets)
            tickets = list(channel.tickets)
        self._mail.wake(tickets)

    @property
    def fresh(self) -> bool:
        """True if there are channels that `taken` will return."""
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
        """Return the time when a channel can be dropped, None without such a channel."""
        with self._lock:
            return next(iter(self._unused.values())) + LINGER if self._unused else None
