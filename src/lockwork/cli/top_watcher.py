"""The state that `lockwork top` shows, read from the server."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence

from msgspec import Struct

from lockwork.app.lockwork import Lockwork
from lockwork.doctor.finding import Finding
from lockwork.doctor.findings import CHECKED_PARTS, findings_of
from lockwork.inspection.lock_cache import LOCKS_EVERY
from lockwork.inspection.overview import OverviewReader, Part
from lockwork.jobs.search import JobRow
from lockwork.protocol.locks.overview import Overview
from lockwork.protocol.queue.status import QueueStatus, WorkerInfo
from lockwork.queues.combining import combined_workers
from lockwork.telemetry import metrics

_HISTORY = 120
"""Number of reads whose rates the line of throughput shows."""
_NEW = QueueStatus(0, 0, 0, 0, 0, 0, 0, 0, 0)
"""A queue before its first job."""
_RUNNING = 100
"""Running jobs that are read."""
_CHEAP = 0.05
"""Seconds: locks are read at each read as long as this takes no longer, else every LOCKS_EVERY seconds."""


class QueueLine(Struct, frozen=True):
    """One queue: its jobs by place, and the jobs that ended a second since the read before."""

    name: str
    status: QueueStatus
    workers: int
    done: float
    failed: float


class Screen(Struct, frozen=True):
    """The data of one read."""

    queues: list[QueueLine]
    workers: list[WorkerInfo]
    running: list[JobRow]
    locks: Overview | None
    """None if this user may not read locks."""
    findings: list[Finding]
    """Findings of `doctor`, read every LOCKS_EVERY seconds."""
    rates: tuple[float, ...]
    """Ended jobs per second in each of the last reads, the newest last; at first from the server's metrics."""

    def total(self, place: str) -> int:
        """Return the number of jobs of all queues in a place."""
        return sum(getattr(line.status, place) for line in self.queues)


class Watcher:
    """Reads the server repeatedly, and computes rates from one read to the next."""

    def __init__(self, lw: Lockwork, every: float = 1.0) -> None:
        self._lw = lw
        self._every = every
        self._counts: dict[str, QueueStatus] = {}
        self._at: float | None = None
        self._rates: deque[float] = deque(maxlen=_HISTORY)
        self._findings: list[Finding] = []
        self._findings_due = 0.0
        self._reader = OverviewReader(cheap_locks=_CHEAP)

    def read(self) -> Screen:
        """Read queues, workers, running jobs, locks and findings; raises LockworkError."""
        now = time.monotonic()
        parts = Part.QUEUES | Part.ALL_LOCKS
        if findings_due := now >= self._findings_due:
            parts |= CHECKED_PARTS & ~Part.WAITED_LOCKS
        overview = self._reader.read(self._lw.runtime, parts)
        queues = overview.partitions
        statuses = {queue.name: queue.status for queue in queues}
        speeds = self._first_speeds(overview.names) if self._at is None else self._speeds(statuses, now - self._at)
        jobs = self._lw.jobs(state="running", limit=_RUNNING, newest=False, hide_arguments=True).jobs
        if findings_due:
            self._findings, self._findings_due = findings_of(overview), now + LOCKS_EVERY
        self._counts, self._at = statuses, now
        self._rates.append(sum(done + failed for done, failed in speeds.values()))
        lines = [QueueLine(queue.name, queue.status, len(queue.workers), *speeds[queue.name]) for queue in queues]
        workers = combined_workers([worker for queue in queues for worker in queue.workers])
        return Screen(lines, workers, jobs, overview.locks, self._findings, tuple(self._rates))

    def _first_speeds(self, names: Sequence[str]) -> dict[str, tuple[float, float]]:
        """Return the speeds of the last minute, and record the rates of the earlier minutes."""
        self._rates.clear()
        minutes = self._lw.runtime.run(metrics.minutes(self._lw.config.prefix, names))
        for points in [*zip(*minutes.values(), strict=True)][:-1]:
            rate = sum((point.succeeded + point.failed) / point.seconds for point in points)
            reads = max(1, round(points[0].seconds / self._every))
            if rate or self._rates:
                self._rates.extend([rate] * reads)
        return {name: metrics.speed(points) for name, points in minutes.items()}

    def _speeds(self, statuses: Mapping[str, QueueStatus], passed: float) -> dict[str, tuple[float, float]]:
        """Return for each queue the jobs that succeeded and the attempts that failed per second since the last read."""
        speeds: dict[str, tuple[float, float]] = {}
        for name, status in statuses.items():
            before = self._counts.get(name, _NEW)
            done, failed = status.succeeded - before.succeeded, status.failed - before.failed
            speeds[name] = max(0, done) / passed, max(0, failed) / passed
        return speeds
