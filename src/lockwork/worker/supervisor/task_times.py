"""Wait and run times of this worker's jobs since its start, by queue and task."""

from __future__ import annotations

import threading

from lockwork.protocol.keys import base_queue
from lockwork.protocol.metrics.metrics import Times
from lockwork.protocol.queue.leases import OTHER
from lockwork.worker.ipc.messages import JobTimes

_MOST = 200
"""Maximum number of tasks with separate times. Later tasks share one entry per queue, named as the server names it."""


class TaskTimes:
    """Times by queue and task; safe to use from any thread."""

    def __init__(self) -> None:
        self._times: dict[tuple[str, str], tuple[Times, Times]] = {}
        self._lock = threading.Lock()

    def add(self, report: JobTimes) -> None:
        """Add the times that a worker process reports."""
        key = (base_queue(report.queue), report.task or OTHER)
        with self._lock:
            if key not in self._times and len(self._times) >= _MOST:
                key = (key[0], OTHER)
            wait, run = self._times.setdefault(key, (Times(), Times()))
            wait.merge(Times.read(report.wait))
            run.merge(Times.read(report.run))

    def read(self) -> list[tuple[str, str, Times, Times]]:
        """Return copies: queue, task, wait times of its jobs, and run times of its attempts."""
        with self._lock:
            return [
                (queue, task, Times.read(wait.packed()), Times.read(run.packed()))
                for (queue, task), (wait, run) in sorted(self._times.items())
            ]
