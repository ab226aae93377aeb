"""How long the jobs of this worker waited and ran, by queue and task, since it started."""

from __future__ import annotations

import threading

from lockwork.protocol.keys import base_queue
from lockwork.protocol.queues.leases import OTHER
from lockwork.protocol.queues.metrics import Times
from lockwork.worker.ipc.messages import JobTimes

_MOST = 200
"""Tasks that have times of their own; those that come later share one entry per queue, named as the server names it."""


class TaskTimes:
    """Times by queue and task; safe to use from any thread."""

    def __init__(self) -> None:
        self._times: dict[tuple[str, str], tuple[Times, Times]] = {}
        self._lock = threading.Lock()

    def add(self, report: JobTimes) -> None:
        """Add what a worker process reports."""
        key = (base_queue(report.queue), report.task or OTHER)
        with self._lock:
            if key not in self._times and len(self._times) >= _MOST:
                key = (key[0], OTHER)
            wait, run = self._times.setdefault(key, (Times(), Times()))
            wait.merge(Times.read(report.wait))
            run.merge(Times.read(report.run))

    def read(self) -> list[tuple[str, str, Times, Times]]:
        """Return copies: queue, task, how long its jobs waited, and how long its attempts ran."""
        with self._lock:
            return [
                (queue, task, Times.read(wait.packed()), Times.read(run.packed()))
                for (queue, task), (wait, run) in sorted(self._times.items())
            ]
