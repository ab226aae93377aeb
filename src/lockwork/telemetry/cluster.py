"""All families of a prefix: queues, tasks, workers, locks and stocks."""

from __future__ import annotations

import contextlib
import threading
from functools import partial

from lockwork.errors import LockworkError, ServerRefused
from lockwork.protocol.queues import browse, sessions
from lockwork.runtime.runtime import Runtime
from lockwork.telemetry.families import PATIENCE, Family, LockFamilies, QueueFamilies, TaskFamilies, gauge
from lockwork.telemetry.workers import worker_families


class ClusterFamilies:
    """Everything that the server knows, for all queues with this prefix; safe to read from any thread."""

    def __init__(self, runtime: Runtime, prefix: str) -> None:
        self._runtime = runtime
        self._prefix = prefix
        self._queues = QueueFamilies(runtime, prefix)
        self._tasks = TaskFamilies(runtime, prefix)
        self._locks = LockFamilies(runtime, prefix)
        self._workers = partial(worker_families, runtime, prefix)
        self._lock = threading.Lock()

    def read(self) -> list[Family]:
        """Read all families; only `server_up` if the server does not answer."""
        with self._lock:
            try:
                names = self._runtime.run(sessions.within(PATIENCE, browse.find(self._prefix)))
                found = [*self._queues.read(names), *self._tasks.read(names)]
                for read in (self._workers, self._locks.locks, self._locks.counts, self._locks.stocks):
                    with contextlib.suppress(ServerRefused):  # a key of another type, or no right to read it
                        found += read()
            except LockworkError:
                return [gauge("server_up", "Whether the server answers", 0)]
            return found
