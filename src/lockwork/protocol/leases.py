"""Which grants this process keeps alive, when each is due for renewal, and when it must count as lost."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from lockwork.protocol.grants import Granted, Renewal

RETRY = 0.5
"""Seconds between tries to renew while the server is away."""


class Lease:
    """One grant in the hands of this process; times are on the client's clock, in seconds."""

    __slots__ = ("deadline", "lost", "next", "on_lost", "renewal", "renewed")

    def __init__(
        self, renewal: Renewal, granted: Granted, now: float, *, renewed: bool, on_lost: Callable[[], None]
    ) -> None:
        self.renewal: Renewal = renewal
        self.renewed: bool = renewed
        self.deadline: float = granted.deadline
        self.lost: bool = False
        self.on_lost: Callable[[], None] = on_lost
        self.next: float = now + (granted.deadline - now) / 3 if renewed else granted.deadline


class LeaseBook:
    """The leases of one process. Adding and removing is safe from any thread; the rest belongs to the engine's."""

    def __init__(self) -> None:
        self._leases: dict[Lease, None] = {}

    def add(self, lease: Lease) -> None:
        """Keep the lease from now on."""
        self._leases[lease] = None

    def remove(self, lease: Lease) -> None:
        """Forget the lease; it was given back."""
        self._leases.pop(lease, None)

    def clear(self) -> None:
        """Forget all leases."""
        self._leases.clear()

    def hasten(self, key: str) -> None:
        """Let the grants of one key be renewed at once: they may be over."""
        for lease in list(self._leases):
            if lease.renewal.key == key:
                lease.next = 0.0

    def next_event(self) -> float | None:
        """When something is due next; None when nothing is kept."""
        return min((lease.next for lease in list(self._leases)), default=None)

    def first_deadline(self) -> float | None:
        """When the first lease ends unless it is renewed; None when nothing is kept."""
        return min((lease.deadline for lease in list(self._leases)), default=None)

    def due(self, now: float) -> list[Lease]:
        """The leases to renew now; those whose deadline has come are lost, and told so."""
        found = []
        for lease in list(self._leases):
            if lease.deadline <= now:
                self._lose(lease)
            elif lease.next <= now and lease.renewed:
                found.append(lease)
        return found

    def renewed(self, leases: Iterable[Lease], deadlines: Iterable[float | None], now: float) -> None:
        """Note the server's answer: a new deadline per lease, or None when the grant is over."""
        for lease, deadline in zip(leases, deadlines, strict=True):
            if deadline is None:
                self._lose(lease)
            else:
                lease.deadline = deadline
                lease.next = now + (deadline - now) / 3

    def postponed(self, leases: Iterable[Lease], now: float) -> None:
        """Note that the server did not answer: try again soon, and give up at the deadline."""
        for lease in leases:
            lease.next = min(now + RETRY, lease.deadline)

    def _lose(self, lease: Lease) -> None:
        # Only a lease that is still kept is lost: its holder may have released it this very moment.
        if lease in self._leases:
            del self._leases[lease]
            lease.lost = True
            lease.on_lost()
