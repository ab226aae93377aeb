"""The cache of sticky locks: this process keeps them after their release, until another process asks for them.

This is the "blocking AST" of distributed lock managers (VAX/VMS): a cached lock is returned on request.
"""

from __future__ import annotations

import contextlib

from lockwork.protocol.locks.leases import Lease

MOST = 1000
"""Locks kept at once; then the one that was kept first is returned."""


class CachedLock:
    """One sticky lock of this process, in use or not."""

    __slots__ = ("_sticky_cache", "asked", "fence", "lease")

    def __init__(self, sticky_cache: StickyCache, lease: Lease) -> None:
        self._sticky_cache = sticky_cache
        self.lease: Lease = lease
        self.fence: int = lease.renewal.fence
        self.asked: bool = False
        """Another process waits for it: it goes back to the server when it is released."""

    def lost(self) -> None:
        """The lease ended while the lock was idle."""
        sticky_cache = self._sticky_cache
        if sticky_cache.idle.get(self.lease.renewal.key) is self:
            sticky_cache.idle.pop(self.lease.renewal.key, None)
        sticky_cache.end(self)


class StickyCache:
    """The sticky locks of one process.

    Threads meet in single dictionary operations: the thread that pops a lock from `idle` has it.
    """

    def __init__(self) -> None:
        self.idle: dict[str, CachedLock] = {}
        self.all: dict[str, CachedLock] = {}

    def begin(self, lease: Lease) -> None:
        """A sticky lock was granted to this process."""
        self.all[lease.renewal.key] = CachedLock(self, lease)

    def keep(self, key: str, kept: CachedLock) -> Lease | None:
        """It is not in use any more; returns a lease that must be returned now."""
        idle = self.idle
        idle[key] = kept
        if kept.asked:
            return self._taken(key)
        if len(idle) > MOST:
            with contextlib.suppress(RuntimeError):  # it changed that moment: the next release sees to it
                return self._taken(next(iter(idle), key))
        return None

    def asked(self, key: str) -> Lease | None:
        """Another process waits for the lock: returns its lease if it is idle; otherwise its release gives it back."""
        kept = self.all.get(key)
        if kept is None:
            return None
        kept.asked = True  # before looking for it: the releasing thread looks in the other order
        return self._taken(key)

    def end(self, kept: CachedLock) -> None:
        """It leaves this process."""
        key = kept.lease.renewal.key
        if self.all.get(key) is kept:
            self.all.pop(key, None)

    def drain(self) -> list[Lease]:
        """Everything idle leaves."""
        return [lease for key in list(self.idle) if (lease := self._taken(key)) is not None]

    def _taken(self, key: str) -> Lease | None:
        kept = self.idle.pop(key, None)
        if kept is None:
            return None
        self.end(kept)
        return kept.lease
