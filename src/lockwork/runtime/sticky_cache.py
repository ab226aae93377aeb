"""The cache of sticky locks: this process keeps them after their release, until another process requests them.

This is the "blocking AST" of distributed lock managers (VAX/VMS): a cached lock is returned on request.
"""

from __future__ import annotations

import contextlib

from lockwork.protocol.locks.leases import Lease

MOST = 1000
"""Maximum number of cached locks; beyond it, the oldest is returned."""


class CachedLock:
    """One sticky lock of this process, in use or not."""

    __slots__ = ("_sticky_cache", "asked", "fence", "lease")

    def __init__(self, sticky_cache: StickyCache, lease: Lease) -> None:
        self._sticky_cache = sticky_cache
        self.lease: Lease = lease
        self.fence: int = lease.renewal.fence
        self.asked: bool = False
        """True if another process waits for the lock, which is therefore returned at its release."""

    def lost(self) -> None:
        """Handle a lease that ended while the lock was idle."""
        sticky_cache = self._sticky_cache
        if sticky_cache.idle.get(self.lease.renewal.key) is self:
            sticky_cache.idle.pop(self.lease.renewal.key, None)
        sticky_cache.end(self)


class StickyCache:
    """The sticky locks of one process.

    Threads synchronize by single dictionary operations: the thread that pops a lock from `idle` owns it.
    """

    def __init__(self) -> None:
        self.idle: dict[str, CachedLock] = {}
        self.all: dict[str, CachedLock] = {}

    def begin(self, lease: Lease) -> None:
        """Record a sticky lock that was granted to this process."""
        self.all[lease.renewal.key] = CachedLock(self, lease)

    def keep(self, key: str, cached: CachedLock) -> Lease | None:
        """Cache a lock that is no longer in use; return a lease that must be returned now."""
        idle = self.idle
        idle[key] = cached
        if cached.asked:
            return self._taken(key)
        if len(idle) > MOST:
            with contextlib.suppress(RuntimeError):  # another thread changed the dictionary: the next release retries
                return self._taken(next(iter(idle), key))
        return None

    def asked(self, key: str) -> Lease | None:
        """Handle another process's request: return the lease of an idle lock; the release returns a lock in use."""
        cached = self.all.get(key)
        if cached is None:
            return None
        cached.asked = True  # set before the lookup: the releasing thread does both in the opposite order
        return self._taken(key)

    def end(self, cached: CachedLock) -> None:
        """Remove a lock from the cache."""
        key = cached.lease.renewal.key
        if self.all.get(key) is cached:
            self.all.pop(key, None)

    def drain(self) -> list[Lease]:
        """Remove all idle locks, and return their leases."""
        return [lease for key in list(self.idle) if (lease := self._taken(key)) is not None]

    def _taken(self, key: str) -> Lease | None:
        cached = self.idle.pop(key, None)
        if cached is None:
            return None
        self.end(cached)
        return cached.lease
