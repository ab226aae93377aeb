"""Wait and run times of jobs, and the number of ignored time-outs: collected, and sent to the server every 5 s."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from lockwork.errors import LockworkError
from lockwork.ids import is_own, made_at
from lockwork.logs import Log
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.metrics import metrics
from lockwork.protocol.metrics.metrics import Times
from lockwork.protocol.queue.leases import Leased
from lockwork.protocol.queue.records import noted_us
from lockwork.runtime.async_driver import AsyncDriver
from lockwork.runtime.clock import now
from lockwork.worker.environment import AGAIN

log: Log = Log("lockwork.worker")

PERIOD = 5.0
"""Seconds between two flushes: if the process is killed, it loses the data since the last flush."""
_SAMPLED = 1_000
"""Jobs of one task per period that are all measured. Beyond, every 2nd job is measured, then every 3rd, etc."""
_PATIENCE = 1.0


class _TaskTimes:
    """The times of one task in this period."""

    __slots__ = ("next", "overruns", "run", "seen", "step", "wait")

    def __init__(self) -> None:
        self.seen = 0
        self.next = 1
        """Number of the next measured job."""
        self.step = 1
        """Number of jobs that each measured job represents."""
        self.wait = Times()
        self.run = Times()
        self.overruns = 0


class Durations:
    """Times of one queue's jobs. Passes each flush to `on_flush`: queue, task, wait times, and run times."""

    def __init__(
        self, keys: QueueKeys, session: str, on_flush: Callable[[str, str, Times, Times], None] = lambda *_: None
    ) -> None:
        self.queue: str = keys.name
        self._keys = keys
        self._session = session
        self._on_flush = on_flush
        self._tasks: dict[str, _TaskTimes] = {}
        self._calls = 0
        self._complaint = 0.0
        """Time of the next warning."""

    def ended(self, job: Leased, task: str, seconds: float) -> None:
        """Add an attempt that ran for `seconds`, or skip it because a later sample represents it."""
        times = self._times(task)
        times.seen += 1
        if times.seen < times.next:
            return
        weight = times.step
        times.step = 1 + times.seen // _SAMPLED
        times.next = times.seen + times.step
        times.run.add(int(seconds * 1e6), weight)
        # later attempts would measure the back-off
        if job.attempt == 1:
            enqueued_us = noted_us(job.record) if is_own(job.id) else (made_at(job.id) or 0) * 1000
            if enqueued_us:
                times.wait.add(max(0, job.fence - enqueued_us), weight)

    def overran(self, task: str) -> None:
        """Count an attempt that ignores its time-out."""
        self._times(task).overruns += 1

    def _times(self, task: str) -> _TaskTimes:
        times = self._tasks.get(task)
        if times is None:
            times = self._tasks[task] = _TaskTimes()
        return times

    async def flush(self, driver: AsyncDriver) -> None:
        """Add the collected times to the server's histograms. Refused data is lost; raises no LockworkError."""
        if not self._tasks:
            return
        gathered, self._tasks = self._tasks, {}
        times = {task: (each.wait, each.run, each.overruns) for task, each in gathered.items()}
        for task, (wait, run, _) in times.items():
            self._on_flush(self.queue, task, wait, run)
        first = self._calls
        self._calls += 1 + len(times)
        try:
            await driver.run(metrics.flush(self._keys, self._session, first, times, _PATIENCE))
        except LockworkError as error:
            if now() >= self._complaint:
                self._complaint = now() + AGAIN
                log.warning("the job times of queue %s could not be added to its metrics: %s", self.queue, error)


async def keep_flushing(driver: AsyncDriver, durations: Iterable[Durations]) -> None:
    """Flush every few seconds, until cancelled."""
    while True:
        await asyncio.sleep(PERIOD)
        for each in durations:
            await each.flush(driver)
