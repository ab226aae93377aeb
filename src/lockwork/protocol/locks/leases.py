"""The leases that this process renews: when each is due for renewal, and when it counts as lost.

A process may hold ten thousand locks, or take and release a lock ten thousand times a second. So adding a lease only
marks it as new. When the engine runs, it sorts the new leases that still exist into a few dozen buckets by rounded
time.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Container, Iterable
from typing import Protocol as Interface
from weakref import ref

from msgspec.structs import replace

from lockwork.protocol.locks.grants import Granted, Renewal

RETRY = 0.5
"""Seconds between renewal attempts while the server is unreachable."""
_FIRST = 1.0
"""Seconds until the first renewal of a lease.

A holder that has held the lock for this long is notified at once when another program ends its grant.
"""
_LONG = 1.0
"""A grant that is held for this many seconds is long-held."""
_LONGER = 60.0
"""Seconds until `long_held` returns the key of a long-held grant again."""
_FINEST = 0.008
"""Shorter times (seconds) are not rounded."""


class LeaseHolder(Interface):
    """The holder of a grant, which the book asks before each renewal."""

    def owner_gone(self) -> bool:
        """Return True if the owner has ended, and so can no longer release the grant."""
        ...

    def notify_abandoned(self) -> None:
        """Notify the holder that its lease is no longer renewed, because the owner has ended."""
        ...


class Lease:
    """One grant of this process; times are on the client's clock, in seconds."""

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
        "ticket",
    )

    def __init__(
        self, renewal: Renewal, granted: Granted, now: float, *, renewed: bool, on_lost: Callable[[], None]
    ) -> None:
        self.renewal: Renewal = renewal
        self.renewed: bool = renewed
        self.deadline: float = granted.deadline
        self.ticket: int = granted.ticket
        self.lost: bool = False
        self.on_lost: Callable[[], None] = on_lost
        self.holder: LeaseHolder | None = None
        """None: the process itself, which renews the lease while it lives."""
        self.since: float = now
        """Time when `next` was set."""
        self.next: float = now + min((granted.deadline - now) / 3, _FIRST) if renewed else granted.deadline
        self.known: bool = False
        """True once the book's engine has sorted it."""
        self.bucket: dict[Lease, None] | None = None
        """The bucket that contains it."""

    @property
    def wish(self) -> Renewal:
        """The request to the server; for a lease that is not renewed, it only reads whether the grant is alive."""
        return self.renewal if self.renewed else replace(self.renewal, lease_ms=0)


class LeaseBook:
    """The leases of one process. Any thread may add and remove; the other methods are for the engine's thread.

    Threads share only single dictionary operations, which are atomic with and without the interpreter's lock. `_leases`
    has all current leases; a bucket may still contain a removed lease.
    """

    def __init__(self) -> None:
        self._leases: dict[Lease, None] = {}
        self._fresh: dict[Lease, None] = {}
        self._buckets: dict[tuple[float, float], dict[Lease, None]] = {}
        """Keyed by the earliest due time and the earliest deadline of the leases of a bucket, rounded down."""
        self._soonest: float | None = None
        self._young: deque[tuple[float, ref[Lease]]] = deque()
        """Grants that are not yet long-held, with the time when they will be; the references are weak."""
        self._old: deque[tuple[float, ref[Lease]]] = deque()
        """Long-held grants, with the time when `long_held` returns them again."""

    def add(self, lease: Lease) -> None:
        """Add a lease."""
        self._leases[lease] = None
        self._fresh[lease] = None

    def moved(self, lease: Lease) -> None:
        """Sort the lease again, after its holder has changed its times."""
        if lease in self._leases:
            self._fresh[lease] = None

    def remove(self, lease: Lease) -> None:
        """Remove a released lease."""
        self._leases.pop(lease, None)
        self._fresh.pop(lease, None)
        bucket = lease.bucket
        if bucket is not None:
            bucket.pop(lease, None)

    def lose(self, lease: Lease) -> None:
        """Mark a lease as lost and notify its holder; safe from any thread."""
        # skip a lease that its holder is releasing at this moment
        if self._leases.pop(lease, lease) is None:
            self.remove(lease)
            lease.lost = True
            lease.on_lost()

    def hasten(self, keys: Container[str] | None = None) -> None:
        """Check the grants of these keys, or of all keys, with the server at once, because they may be over."""
        for lease in list(self._leases):
            if keys is None or lease.renewal.key in keys:
                self._move(lease, lease.since, 0.0)

    def keys(self) -> list[str]:
        """Return the keys of all grants; safe from any thread."""
        return [lease.renewal.key for lease in list(self._leases)]

    def long_held(self, now: float) -> list[str]:
        """Return the keys of grants that have now been held for a second, and then again once a minute."""
        keys: list[str] = []
        for leases in (self._young, self._old):
            while leases and leases[0][0] <= now:
                _, reference = leases.popleft()
                lease = reference()
                if lease is not None and lease in self._leases:
                    keys.append(lease.renewal.key)
                    self._old.append((now + _LONGER, reference))
        return keys

    @property
    def next_long_held(self) -> float | None:
        """Earliest time when `long_held` returns a key; None without grants."""
        return min((leases[0][0] for leases in (self._young, self._old) if leases), default=None)

    def next_event(self) -> float | None:
        """Return the time of the next event, or an earlier time; None without leases."""
        if self._fresh:
            self._sort()
        return self._soonest

    def first_deadline(self) -> float | None:
        """Return the time of the first deadline, or a slightly earlier time; None without leases."""
        self._sort()
        return min((ends for (_, ends), bucket in self._buckets.items() if bucket), default=None)

    def end(self, now: float) -> None:
        """Notify the holders of leases that have ended."""
        for bucket in [bucket for (_, ends), bucket in self._buckets.items() if ends <= now]:
            for lease in list(bucket):
                if lease.deadline <= now:
                    self.lose(lease)

    def due(self, now: float) -> list[Lease]:
        """Return the leases to renew now, some a little early to renew them together. Notifies holders of ended leases.

        A lease whose owner is gone is checked once more, and then ends at its deadline.
        """
        self._sort()
        leases: list[Lease] = []
        if self._soonest is None or self._soonest > now:
            return leases
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
                    leases.append(lease)
                else:
                    self._place(lease, now)
        self._soonest = min((at for at, _ in self._buckets), default=None)
        self.postponed(leases, now)  # until the reply arrives
        return leases

    def renewed(self, leases: Iterable[Lease], deadlines: Iterable[float | None], now: float) -> None:
        """Apply the server's reply: a new deadline per lease, or None when the grant is over."""
        for lease, deadline in zip(leases, deadlines, strict=True):
            if deadline is None:
                self.lose(lease)
            else:
                lease.deadline = deadline
                self._move(lease, now, now + (deadline - now) / 3 if lease.renewed else deadline)

    def postponed(self, leases: Iterable[Lease], now: float) -> None:
        """Schedule another attempt, because the server did not reply; give up at the deadline."""
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
        # Times are rounded down, so no lease is late. The rounding is at most an eighth of the remaining time, so there
        # are few buckets for any length of time. A lease that is not renewed is sorted again when its bucket is due,
        # and so approaches its deadline.
        if lease.bucket is not None:
            lease.bucket.pop(lease, None)
        lease.since = since
        at, ends, remaining = lease.next, lease.deadline, lease.next - since
        if remaining >= _FINEST:
            tick = math.ldexp(1.0, math.frexp(remaining)[1] - 4)
            at, ends = at // tick * tick, ends // tick * tick
        bucket = self._buckets.setdefault((at, ends), {})
        lease.bucket = bucket
        bucket[lease] = None
        if self._soonest is None or at < self._soonest:
            self._soonest = at


def _check_owner(lease: Lease) -> None:
    """Stop the renewal of a lease whose owner is gone; otherwise the lock would be held forever."""
    holder = lease.holder
    if holder is not None and holder.owner_gone():
        lease.renewed = False
        holder.notify_abandoned()
