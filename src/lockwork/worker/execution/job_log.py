"""The log of successful jobs: one line per job; for a busy task, one line per second."""

from __future__ import annotations

import asyncio
from time import monotonic

from lockwork.logs import Log
from lockwork.protocol.queue.leases import Leased
from lockwork.words import several

log: Log = Log("lockwork.jobs")

BUSY = 50
"""Jobs of one task per second beyond which the log sums them up."""
PERIOD = 1.0


class _Tally:
    """The jobs of one task in this period."""

    __slots__ = ("count", "lines", "longest", "seconds")

    def __init__(self, lines: int) -> None:
        self.count = 0
        self.lines = lines
        """Maximum number of jobs that get separate lines."""
        self.seconds = 0.0
        """Total run time of the other jobs, and the longest one."""
        self.longest = 0.0


class JobLog:
    """Counts the jobs of one process, on its event loop; `close` logs the remaining counts."""

    def __init__(self) -> None:
        self._tallies: dict[str, _Tally] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._began = 0.0

    def succeeded(self, job: Leased, task: str, queue: str, seconds: float) -> None:
        """Log a job, or count it."""
        tally = self._tallies.get(task)
        if tally is None:
            tally = self._tallies[task] = _Tally(BUSY)
            if self._timer is None:
                self._begin()
        tally.count += 1
        if tally.count > tally.lines:
            tally.seconds += seconds
            tally.longest = max(tally.longest, seconds)
            return
        fields = {"job": job.id, "task": task, "queue": queue, "attempt": job.attempt, "seconds": round(seconds, 6)}
        log.info("job %s of task %r succeeded, attempt %d, in %.3f s", job.id, task, job.attempt, seconds, extra=fields)

    def close(self) -> None:
        """Log the current counts."""
        if self._timer is not None:
            self._timer.cancel()
            self._sum_up(monotonic() - self._began)
        self._timer, self._tallies = None, {}

    def _begin(self) -> None:
        self._began = monotonic()
        self._timer = asyncio.get_running_loop().call_later(PERIOD, self._turn)

    def _turn(self) -> None:
        """Begin another period, unless this one had no job."""
        elapsed = monotonic() - self._began  # more than a period if jobs blocked the event loop
        self._sum_up(elapsed)
        counts = {task: tally.count for task, tally in self._tallies.items() if tally.count}
        self._tallies = {task: _Tally(0 if count > BUSY * elapsed else BUSY) for task, count in counts.items()}
        self._timer = None
        if self._tallies:
            self._begin()

    def _sum_up(self, elapsed: float) -> None:
        for task, tally in self._tallies.items():
            summed = tally.count - tally.lines
            if summed > 0:
                log.info(
                    "%s of task %r succeeded in %.1f s: %.3f ms each on average, %.3f ms at most",
                    several(summed, "job"), task, elapsed, 1000 * tally.seconds / summed, 1000 * tally.longest,
                    extra={"task": task},
                )  # fmt: skip
