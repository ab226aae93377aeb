"""How long jobs waited and ran: gathered in the worker process, and added to the server's histograms now and then."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from lockwork.errors import LockworkError
from lockwork.ids import made_at
from lockwork.logs import Log
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queues import metrics
from lockwork.protocol.queues.leases import Leased
from lockwork.protocol.queues.metrics import Times
from lockwork.runtime.async_driver import AsyncDriver
from lockwork.runtime.clock import now
from lockwork.worker.environment import AGAIN

log: Log = Log("lockwork.worker")

PERIOD = 5.0
"""Seconds between two flushes: what a process has gathered since the last is lost if it is killed."""
_SAMPLED = 1_000
"""Jobs of one task in a period beyond which only every second is measured, then every third, and so on."""
_PATIENCE = 1.0


class _TaskTimes:
    """The times of one task in this period."""

    __slots__ = ("next", "run", "seen", "step", "wait")

    def __init__(self) -> None:
        self.seen = 0
        self.next = 1
        """Which job is measured next."""
        self.step = 1
        """For how many jobs that one stands."""
        self.wait = Times()
        self.run = Times()


class Durations:
    """The times of one queue's jobs; `on_flush` gets what is flushed: queue, task, how long its jobs waited and ran."""

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
        """When the next warning may be logged."""

    def ended(self, job: Leased, task: str, seconds: float) -> None:
        """Add an attempt that ran for `seconds`, or let a later one stand for it."""
        times = self._tasks.get(task)
        if times is None:
            times = self._tasks[task] = _TaskTimes()
        times.seen += 1
        if times.seen < times.next:
            return
        weight = times.step
        times.step = 1 + times.seen // _SAMPLED
        times.next = times.seen + times.step
        times.run.add(int(seconds * 1e6), weight)
        # what waits between two attempts is the back-off
        if job.attempt == 1 and (made := made_at(job.id)) is not None:
            times.wait.add(max(0, job.fence - made * 1000), weight)

    async def flush(self, driver: AsyncDriver) -> None:
        """Add what was gathered to the server's histograms. What it refuses is lost; raises no LockworkError."""
        if not self._tasks:
            return
        gathered, self._tasks = self._tasks, {}
        times = {task: (each.wait, each.run) for task, each in gathered.items()}
        for task, (wait, run) in times.items():
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
