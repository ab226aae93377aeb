"""A cache of all locks, or of locks with waiters: reading them costs the server more than other reads."""

from __future__ import annotations

from lockwork.errors import ServerRefused
from lockwork.protocol.effects import Clock, Protocol
from lockwork.protocol.locks.overview import Overview, read_locks

LOCKS_EVERY = 15.0
"""Seconds between two reads of locks."""


class LockCache:
    """Reads locks every 15 s, or each time while that is cheap."""

    def __init__(self, *, contended: bool = False, cheap: float = 0.0) -> None:
        """Start with an empty cache.

        contended: read only locks that have waiters.
        cheap: if a read takes longer (seconds), the reads in the next 15 s use the cache.
        """
        self._contended = contended
        self.cheap = cheap
        self._locks: Overview | None = None
        self._known = False
        self._due = 0.0

    def read(self, prefix: str) -> Protocol[Overview | None]:
        """Return the locks, up to 15 s old; None if this user may not read locks."""
        now = yield Clock()
        if self._known and now < self._due:
            return self._locks
        self._due = now + LOCKS_EVERY  # set before the read, so that other readers of the same page skip it
        try:
            try:
                self._locks = yield from read_locks(prefix, contended=self._contended)
            except ServerRefused:
                self._locks = None
            self._known = True
            ended = yield Clock()
        except BaseException:
            self._due = 0.0
            raise
        if ended - now <= self.cheap:
            self._due = ended
        return self._locks
