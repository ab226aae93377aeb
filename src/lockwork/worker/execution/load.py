"""Reports how busy a worker process is, for those who watch it."""

from __future__ import annotations

import asyncio

from lockwork.worker.execution.slots import WorkerSlots
from lockwork.worker.ipc.messages import BusySlot, Load, Reporter

_REPORT = 2.0
"""Seconds between two reports."""
_LOOK = 0.5
"""Seconds between two looks at how late the event loop is, while jobs run."""
_SIZE = 10_000
"""Characters of all jobs in a report."""


async def report_load(slots: WorkerSlots, reporter: Reporter) -> None:
    """ProcessReport every 2 s, until cancelled."""
    loop = asyncio.get_running_loop()
    lag, due = 0.0, loop.time()
    while True:
        if loop.time() >= due:
            reporter.report(Load(slots.running, round(lag, 4), _busy(slots)))
            lag, due = 0.0, loop.time() + _REPORT
        pause = _LOOK if slots.running else _REPORT
        began = loop.time()
        await asyncio.sleep(pause)
        lag = max(lag, loop.time() - began - pause)


def _busy(slots: WorkerSlots) -> list[BusySlot]:
    """The jobs that run, as many as fit."""
    found: list[BusySlot] = []
    size = 0
    for job in slots.jobs():
        size += 60 + len(job.id) + len(job.queue) + len(job.task)
        if size > _SIZE:
            break
        found.append(BusySlot(job.id, job.queue, job.task, job.fence, job.attempt))
    return found
