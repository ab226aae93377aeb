"""Statistics of this process's locks since the last report: lost leases, and durations of hand-overs."""

from __future__ import annotations

import threading
from collections import deque
from itertools import count
from typing import TYPE_CHECKING

from lockwork.logs import Log
from lockwork.protocol.locks import counts
from lockwork.protocol.metrics.metrics import bucket
from lockwork.protocol.queue.sessions import within
from lockwork.runtime.clock import now

if TYPE_CHECKING:  # it imports redis-py, which an app needs only when it uses a server
    from lockwork.runtime.sync_driver import SyncDriver

log: Log = Log("lockwork")

_PAUSE = 5.0
"""Seconds between two reports; if the process is killed, unreported data is lost."""
_TROUBLED = 60.0
"""Seconds until the next report after an error."""
_UNSORTED = 1000
"""Maximum number of hand-overs that are not counted yet."""
_PATIENCE = 0.2
"""Time limit of a report in seconds: the engine's thread must also renew leases."""


class LockCounts:
    """Counters that any thread increments, and the engine's thread reports."""

    def __init__(self, prefix: str, process: str) -> None:
        self._prefix = prefix
        self._process = process
        self._amounts: dict[str, int] = {}
        self._handed: deque[tuple[str, float]] = deque()
        """Hand-overs that are not counted yet: the engine's thread counts them later, while their holders work."""
        self._lock = threading.Lock()
        self._numbers = count()
        self._next = 0.0

    def lost(self, key: str) -> None:
        """Count a lease that ended before its holder released the lock with this key."""
        self._add(f"lost:{counts.kind_of(key)}", 1)

    def handed(self, key: str, seconds: float) -> None:
        """Count a hand-over of the lock with this key; seconds: from the release to the next grant."""
        self._handed.append((key, seconds))
        if len(self._handed) > _UNSORTED:
            self._count_handed()

    def _count_handed(self) -> None:
        amounts: dict[str, int] = {}
        while self._handed:
            try:
                key, seconds = self._handed.popleft()
            except IndexError:  # another thread counts them, too
                break
            kind, microseconds = counts.kind_of(key), max(0, round(seconds * 1e6))
            for name, amount in ((f"sum:{kind}", microseconds), (f"handed:{kind}:{bucket(microseconds)}", 1)):
                amounts[name] = amounts.get(name, 0) + amount
        for name, amount in amounts.items():
            self._add(name, amount)

    def _add(self, name: str, amount: int) -> None:
        with self._lock:
            # without a function call, so that CPython runs no signal handler here that might need this lock
            try:
                self._amounts[name] += amount
            except KeyError:
                self._amounts[name] = amount

    @property
    def due(self) -> float | None:
        """Return the time of the next report, on this process's clock; None without data."""
        return self._next if self._amounts or self._handed else None

    def tell(self, driver: SyncDriver) -> None:
        """Report to the server. Refused data is lost, because nothing depends on it."""
        self._count_handed()
        with self._lock:
            amounts, self._amounts = self._amounts, {}
        self._next = now() + _PAUSE
        adding = counts.add(self._prefix, f"{self._process}:{next(self._numbers)}", amounts)
        try:
            driver.run(within(_PATIENCE, adding))
        except Exception as error:  # noqa: BLE001 - whatever it is, leases are renewed
            self._next = now() + _TROUBLED
            log.debug("the lock counters could not be sent to the server: %s", error)
