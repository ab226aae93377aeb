"""What became of this process's locks since it last told the server: lost leases, and how long hand-overs took."""

from __future__ import annotations

import threading
from collections import Counter
from itertools import count

from lockwork.logs import Log
from lockwork.protocol.locks import counts
from lockwork.protocol.queues.metrics import bucket
from lockwork.protocol.queues.sessions import within
from lockwork.runtime.clock import now
from lockwork.runtime.sync_driver import SyncDriver

log: Log = Log("lockwork")

_PAUSE = 5.0
"""Seconds between two calls; what is not told yet when the process is killed is lost."""
_TROUBLED = 60.0
"""Seconds until the next call after an error."""
_PATIENCE = 0.2
"""Seconds: the engine's thread, which renews leases, waits no longer for it."""


class LockCounts:
    """Counted by any thread, told by the engine's."""

    def __init__(self, prefix: str, process: str) -> None:
        self._prefix = prefix
        self._process = process
        self._amounts: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._numbers = count()
        self._next = 0.0

    def lost(self, key: str) -> None:
        """Count a lease that ended before its holder released the lock with this key."""
        with self._lock:
            self._amounts[f"lost:{counts.kind_of(key)}"] += 1

    def handed(self, key: str, seconds: float) -> None:
        """Count a hand-over of the lock with this key, which took so long from the release to the next holder."""
        kind, microseconds = counts.kind_of(key), max(0, round(seconds * 1e6))
        with self._lock:
            self._amounts[f"sum:{kind}"] += microseconds
            self._amounts[f"handed:{kind}:{bucket(microseconds)}"] += 1

    @property
    def due(self) -> float | None:
        """When the server is to be told, on this process's clock; None while there is nothing to tell."""
        return self._next if self._amounts else None

    def tell(self, driver: SyncDriver) -> None:
        """Tell the server. What it does not take is lost, as nothing depends on it."""
        with self._lock:
            amounts, self._amounts = self._amounts, Counter()
        self._next = now() + _PAUSE
        adding = counts.add(self._prefix, f"{self._process}:{next(self._numbers)}", amounts)
        try:
            driver.run(within(_PATIENCE, adding))
        except Exception as error:  # noqa: BLE001 - whatever it is, leases are renewed
            self._next = now() + _TROUBLED
            log.debug("the lock counters could not be sent to the server: %s", error)
