"""Reports the load of a worker process, for dashboards and metrics."""

from __future__ import annotations

import asyncio

from lockwork.jobs.current import JobContext
from lockwork.runtime.clock import now
from lockwork.worker.execution.slots import WorkerSlots
from lockwork.worker.ipc.messages import AwaitedResult, BusySlot, Load, Reporter

_REPORT = 2.0
"""Seconds between two reports."""
_LAG_PERIOD = 0.5
"""Seconds between two checks of the event loop's delay, while jobs run."""
_SIZE = 10_000
"""Maximum characters of all jobs in a report."""
_MOST_WAITS = 5
"""Maximum number of results that a report names for one job."""


async def report_load(slots: WorkerSlots, reporter: Reporter) -> None:
    """Send a ProcessReport every 2 s, until cancelled."""
    loop = asyncio.get_running_loop()
    lag, due = 0.0, loop.time()
    while True:
        if loop.time() >= due:
            jobs, waiting = _busy(slots)
            reporter.report(Load(slots.running, round(lag, 4), jobs, waiting))
            lag, due = 0.0, loop.time() + _REPORT
        pause = _LAG_PERIOD if slots.running else _REPORT
        began = loop.time()
        await asyncio.sleep(pause)
        lag = max(lag, loop.time() - began - pause)


def _busy(slots: WorkerSlots) -> tuple[list[BusySlot], int]:
    """Return the running jobs that fit, and the number of jobs that wait for results."""
    waiting = [job for job in slots.jobs() if job.waits]
    busy: list[BusySlot] = []
    size = 0
    for job in (*waiting, *(job for job in slots.jobs() if not job.waits)):
        waits = awaited(job)
        size += 60 + len(job.id) + len(job.queue) + len(job.task) + sum(30 + len(w.id) + len(w.queue) for w in waits)
        if size > _SIZE:
            break
        busy.append(BusySlot(job.id, job.queue, job.task, job.fence, job.attempt, waits, job.runner))
    return busy, len(waiting)


def awaited(job: JobContext) -> list[AwaitedResult]:
    """Return some of the results that a job waits for; the first of each queue comes first."""
    waits = list(job.waits)  # a copy, because another thread may change it
    firsts = {wait.queue: wait for wait in reversed(waits)}
    others = [wait for wait in waits if wait not in firsts.values()]
    at = now()
    return [
        AwaitedResult(wait.id, wait.queue, round(max(0.0, at - wait.since), 1))
        for wait in [*firsts.values(), *others][:_MOST_WAITS]
    ]
