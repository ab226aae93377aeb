"""All families of a prefix: queues, tasks, workers, locks and stocks."""

from __future__ import annotations

import contextlib
import threading

from lockwork.errors import LockworkError, ServerRefused
from lockwork.inspection.overview import OverviewReader, Part
from lockwork.logs import Log
from lockwork.protocol.queue import sessions
from lockwork.runtime.runtime import Runtime
from lockwork.telemetry.families import (
    PATIENCE,
    QUEUE_PARTS,
    Family,
    LockFamilies,
    TaskFamilies,
    lock_families,
    queue_families,
    server_up,
)
from lockwork.telemetry.workers import worker_families

log: Log = Log("lockwork")
_PARTS = QUEUE_PARTS | Part.WORKERS | Part.ALL_LOCKS


class ClusterFamilies:
    """Everything that the server reports for all queues with this prefix; safe to read from any thread."""

    def __init__(self, runtime: Runtime, prefix: str) -> None:
        self._runtime = runtime
        self._prefix = prefix
        self._reader = OverviewReader()
        self._tasks = TaskFamilies(runtime, prefix)
        self._locks = LockFamilies(runtime, prefix)
        self._lock = threading.Lock()
        self._warned = False

    def read(self) -> list[Family]:
        """Read all families; only `server_up` if the server does not answer."""
        with self._lock:
            try:
                protocol = self._reader.protocol(self._prefix, _PARTS, skip_refused=True)
                overview = self._runtime.run(sessions.within(PATIENCE, protocol))
                families = [*queue_families(overview.partitions), *self._tasks.read(overview.names)]
                if Part.WORKERS not in overview.refused:
                    families += worker_families(overview.workers)
                if overview.locks is not None:
                    families += lock_families(overview.locks)
                for read in (self._locks.counts, self._locks.stocks):
                    with contextlib.suppress(ServerRefused):  # a key of the wrong type, or no permission to read it
                        families += read()
            except LockworkError as error:
                if not self._warned:
                    log.warning("the metrics cannot be read, so lockwork_server_up is 0: %s", error)
                self._warned = True
                return [server_up(0)]
            self._warned = False
            return families
