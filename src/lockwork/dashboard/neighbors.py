"""The neighbors of a job: the jobs of its key, or of its group, that came before and after it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass

from lockwork.app.lockwork import Lockwork
from lockwork.jobs.search import JobFilter, JobPage, JobRow, JobState
from lockwork.jobs.snapshot import JobSnapshot

_AROUND = 3
"""Neighbors that are shown on each side."""
_STATES: tuple[JobState, ...] = ("done", "running", "ready", "scheduled")
_READ = 100
"""Jobs of each state that are read."""


@dataclass(frozen=True, slots=True)
class Neighbors:
    """Jobs of one key or group in their order, with the job itself among them."""

    kind: str
    """"key" or "group"."""
    name: str
    rows: list[JobRow]
    before: int | None
    """Jobs before the first row; None: not all were looked for."""
    after: int | None
    """Jobs behind the last row; None as above."""
    ahead: list[JobRow]
    """Those that run or are ready, and go before the job itself; none if it does not wait."""


async def read_neighbors(lw: Lockwork, job: JobSnapshot) -> Neighbors | None:
    """Read the neighbors of a job; None if it has neither a key nor a group, or has none."""
    kind, name = ("key", job.key) if job.key else ("group", job.group)
    if not name:
        return None

    def read(state: JobState) -> Awaitable[JobPage]:
        matching = JobFilter(state=state, key=name) if kind == "key" else JobFilter(state=state, group=name)
        # of those that have ended and of the scheduled ones, the first are the nearest
        return lw.ajobs(job.queue, limit=_READ, newest=state in ("done", "scheduled"), **matching)

    ended, running, ready, scheduled = await asyncio.gather(*map(read, _STATES))
    jobs = [*reversed(ended.jobs), *running.jobs, *ready.jobs, *scheduled.jobs]
    at = next((at for at, row in enumerate(jobs) if row.id == job.id), None)
    if at is None or len(jobs) < 2:
        return None
    first, last = max(0, at - _AROUND), at + _AROUND + 1
    ahead = [row for row in jobs[:at] if row.state in ("running", "ready")] if jobs[at].state == "ready" else []
    return Neighbors(
        kind,
        name,
        jobs[first:last],
        None if ended.next else first,
        None if ready.next or scheduled.next else max(0, len(jobs) - last),
        ahead,
    )
