"""The grant of several locks at once: it counts as lost as soon as one of them is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from lockwork.locks.grant import Grant
from lockwork.owners import Owner
from lockwork.protocol.locks.grants import Granted, Renewal
from lockwork.protocol.locks.leases import Lease

if TYPE_CHECKING:
    from lockwork.locks.ownership import Holding


class MultiGrant(Grant):
    """Several locks in the hands of one task or thread. `fences` has each lock's fence, `fence` is the highest of them.

    Each part is an ordinary grant: its lock is re-entrant for the owner, and the engine keeps it alive.
    """

    __slots__ = ("_told", "parts")

    def __init__(self, handle: Holding, owner: Owner, parts: Iterable[Grant], since: float) -> None:
        self.parts: tuple[Grant, ...] = tuple(parts)
        self._told = False
        fence = max(part.fence for part in self.parts)
        # the engine does not know this lease: it only says that the whole was not given up yet
        whole = Renewal(handle._key, "", fence, handle._lease_ms)
        lease = Lease(whole, Granted(fence, float("inf")), since, renewed=False, on_lost=_nothing)
        super().__init__(handle, owner, fence, lease, since)
        for part in self.parts:
            watch(part, self._part_lost)

    @property
    def fences(self) -> dict[str, int]:
        """The fence of each lock, by name: send along that of the lock that guards what you write."""
        return {part.name: part.fence for part in self.parts}

    @property
    def lost(self) -> bool:
        """Whether the lease of any of the locks has ended."""
        return self._lease is None or any(part.lost for part in self.parts)

    @property
    def remaining(self) -> float:
        """Seconds that all leases last unless they are renewed; 0 when one is lost."""
        return 0.0 if self._lease is None else min(part.remaining for part in self.parts)

    def _part_lost(self) -> None:
        if self._lease is not None and not self._told:
            self._told = True
            self._told_lost()

    def _unwatch(self) -> None:
        for part in self.parts:
            unwatch(part, self._part_lost)


class _Watched:
    """What a lease calls when it is lost while others than its own grant want to know."""

    __slots__ = ("first", "others")

    def __init__(self, first: Callable[[], None]) -> None:
        self.first = first
        self.others: dict[Callable[[], None], None] = {}

    def __call__(self) -> None:
        self.first()
        for told in list(self.others):
            told()


def watch(part: Grant, told: Callable[[], None]) -> None:
    """Let `told` be called, from the engine's thread, when the lease of `part` is lost; at once if it is already."""
    lease = part._lease
    if lease is not None:
        watched = lease.on_lost
        if not isinstance(watched, _Watched):
            watched = lease.on_lost = _Watched(watched)
        watched.others[told] = None
    if lease is None or lease.lost:
        told()


def unwatch(part: Grant, told: Callable[[], None]) -> None:
    """Do not call `told` any more."""
    lease = part._lease
    if lease is not None and isinstance(lease.on_lost, _Watched):
        lease.on_lost.others.pop(told, None)


def _nothing() -> None:
    return None
