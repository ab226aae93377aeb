"""Which grants this process keeps alive, when each is due for renewal, and when it must count as lost.

A process may hold ten thousand locks, or take and release one ten thousand times a second. So a new lease is only
noted; those that are still there when the engine looks are sorted into buckets by rounded time, a few dozen of them.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Container, Iterable
from dataclasses import replace
from typing import Protocol as Interface
from weakref import ref

from lockwork.protocol.locks.grants import Granted, Renewal

RETRY = 0.5
"""Seconds between tries to renew while the server is away."""
_FIRST = 1.0
"""Seconds after which a lease is first renewed.

A holder of that long is notified at once when the lock is taken away.
"""
_LONG = 1.0
"""Seconds after which a grant is held for long."""
_LONGER = 60.0
"""Seconds after which it is named again."""
_FINEST = 0.008
"""Seconds below which times are not rounded."""


class LeaseHolder(Interface):
    """The holder of a grant, as the book asks for it before each renewal."""

    def owner_gone(self) -> bool:
        """Return whether the owner has ended, so that it can release nothing any more."""
        ...

    def notify_abandoned(self) -> None:
        """The lease is not renewed any more, because the owner is gone."""
        ...


class Lease:
    """One grant that this process holds; times are on the client's clock, in seconds."""

    __slots__ = (
        "__weakref__",
        "bucket",
        "deadline",
        "holder",
        "known",
        "lost",
        "next",
        "on_lost",
        "renewal",
        "renewed",
        "since",
    )

    def __init__(
        self, renewal: Renewal, granted: Granted, now: float, *, renewed: bool, on_lost: Callable[[], None]
    ) -> None:
        self.renewal: Renewal = renewal
        self.renewed: bool = renewed
        self.deadline: float = granted.deadline
        self.lost: bool = False
        self.on_lost: Callable[[], None] = on_lost
        self.holder: LeaseHolder | None = None
        """None: this process itself, which renews the lease as long as it lives."""
        self.since: float = now
        """When `next` was decided."""
        self.next: float = now + min((granted.deadline - now) / 3, _FIRST) if renewed else granted.deadline
        self.known: bool = False
        """Whether the book's engine has seen it."""
        self.bucket: dict[Lease, None] | None = None
        """Where the book's engine has sorted it in."""

    @property
    def wish(self) -> Renewal:
        """What to ask the server for: a lease that is not renewed is only asked about."""
        return self.renewal if self.renewed else replace(self.renewal, lease_ms=0)


class LeaseBook:
    """The leases of one process. Adding and removing is safe from any thread; the rest belongs to the engine's.

    Threads meet in single dictionary operations, which are atomic with and without the interpreter's lock. A lease is
    kept while it is in `_leases`; a bucket may still hold one that is not.
    """

    def __init__(self) -> None:
        self._leases: dict[Lease, None] = {}
        self._fresh: dict[Lease, None] = {}
        self._buckets: dict[tuple[float, float], dict[Lease, None]] = {}
        """By the earliest time at which one of its leases is due, and the earliest at which one ends, rounded down."""
        self._soonest: float | None = None
        self._young: deque[tuple[float, ref[Lease]]] = deque()
        """Grants that are not held for long yet, by the time when they will be; a released one is not kept alive."""
        self._old: deque[tuple[float, ref[Lease]]] = deque()
        """Grants that are held for long, by the time when they are named again."""

    def add(self, lease: Lease) -> None:
        """Keep the lease from now on."""
        self._leases[lease] = None
        self._fresh[lease] = None

    def moved(self, lease: Lease) -> None:
        """Note that the holder has changed its times."""
        if lease in self._leases:
            self._fresh[lease] = None

    def remove(self, lease: Lease) -> None:
        """Forget the lease; it was returned."""
        self._leases.pop(lease, None)
        self._fresh.pop(lease, None)
        bucket = lease.bucket
        if bucket is not None:
            bucket.pop(lease, None)

    def lose(self, lease: Lease) -> None:
        """Note that a lease is over, and tell its holder, from any thread."""
        # Only a lease that is still kept is lost: its holder may have released it this very moment.
        if self._leases.pop(lease, lease) is None:
            self.remove(lease)
            lease.lost = True
            lease.on_lost()

    def hasten(self, keys: Container[str] | None = None) -> None:
        """Let the server be asked about the grants of these keys, or all, at once: they may be over."""
        for lease in list(self._leases):
            if keys is None or lease.renewal.key in keys:
                self._move(lease, lease.since, 0.0)

    def keys(self) -> list[str]:
        """The keys of all grants, for any thread."""
        return [lease.renewal.key for lease in list(self._leases)]

    def long_held(self, now: float) -> list[str]:
        """The keys of the grants that have been held for a second by now, and then again each minute."""
        found: list[str] = []
        for leases in (self._young, self._old):
            while leases and leases[0][0] <= now:
                _, reference = leases.popleft()
                lease = reference()
                if lease is not None and lease in self._leases:
                    found.append(lease.renewal.key)
                    self._old.append((now + _LONGER, reference))
        return found

    @property
    def next_long_held(self) -> float | None:
        """When `long_held` finds something next, at the earliest; None when nothing is kept."""
        return min((leases[0][0] for leases in (self._young, self._old) if leases), default=None)

    def next_event(self) -> float | None:
        """When something may be due next, never too late; None when nothing is kept."""
        if self._fresh:
            self._sort()
        return self._soonest

    def first_deadline(self) -> float | None:
        """When the first lease ends unless it is renewed, or a little before; None when nothing is kept."""
        self._sort()
        return min((ends for (_, ends), bucket in self._buckets.items() if bucket), default=None)

    def end(self, now: float) -> None:
        """Notify the holders of leases that have ended."""
        for bucket in [bucket for (_, ends), bucket in self._buckets.items() if ends <= now]:
            for lease in list(bucket):
                if lease.deadline <= now:
                    self.lose(lease)

    def due(self, now: float) -> list[Lease]:
        """The leases to renew now, some a little early so that they go together; notify the holders of ended ones.

        A lease whose owner is gone is only asked about, once, and then ends at its deadline.
        """
        self._sort()
        found: list[Lease] = []
        if self._soonest is None or self._soonest > now:
            return found
        for place in [place for place in self._buckets if place[0] <= now]:
            bucket = self._buckets.pop(place)
            for lease in list(bucket):
                if lease.bucket is not bucket or lease not in self._leases:
                    continue
                if lease.deadline <= now:
                    self.lose(lease)
                elif lease.renewed or lease.next < lease.deadline:
                    if lease.renewed:
                        _check_owner(lease)
                    found.append(lease)
                else:
                    self._place(lease, now)
        self._soonest = min((at for at, _ in self._buckets), default=None)
        self.postponed(found, now)  # until the answer is noted
        return found

    def renewed(self, leases: Iterable[Lease], deadlines: Iterable[float | None], now: float) -> None:
        """Note the server's answer: a new deadline per lease, or None when the grant is over."""
        for lease, deadline in zip(leases, deadlines, strict=True):
            if deadline is None:
                self.lose(lease)
            else:
                lease.deadline = deadline
                self._move(lease, now, now + (deadline - now) / 3 if lease.renewed else deadline)

    def postponed(self, leases: Iterable[Lease], now: float) -> None:
        """Note that the server did not answer: try again soon, and give up at the deadline."""
        for lease in leases:
            self._move(lease, now, min(now + RETRY, lease.deadline))

    def _sort(self) -> None:
        for _ in range(len(self._fresh)):
            try:
                lease, _ = self._fresh.popitem()
            except KeyError:
                return  # released meanwhile
            if lease in self._leases:
                if not lease.known:
                    lease.known = True
                    self._young.append((lease.since + _LONG, ref(lease)))
                self._place(lease, lease.since)

    def _move(self, lease: Lease, since: float, at: float) -> None:
        lease.next = at
        if lease in self._leases:
            self._place(lease, since)

    def _place(self, lease: Lease, since: float) -> None:
        # Rounded down, so nothing is late; by an eighth of the time left at most, so that there are few buckets for any
        # length of time. A lease that is not renewed is sorted again when its bucket comes, and so approaches its
        # deadline.
        if lease.bucket is not None:
            lease.bucket.pop(lease, None)
        lease.since = since
        at, ends, left = lease.next, lease.deadline, lease.next - since
        if left >= _FINEST:
            tick = math.ldexp(1.0, math.frexp(left)[1] - 4)
            at, ends = at // tick * tick, ends // tick * tick
        bucket = self._buckets.setdefault((at, ends), {})
        lease.bucket = bucket
        bucket[lease] = None
        if self._soonest is None or at < self._soonest:
            self._soonest = at


def _check_owner(lease: Lease) -> None:
    """Renew the lease no more if its owner is gone: it would be held for ever."""
    holder = lease.holder
    if holder is not None and holder.owner_gone():
        lease.renewed = False
        holder.notify_abandoned()
