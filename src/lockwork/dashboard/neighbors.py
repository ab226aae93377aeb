"""The neighbors of a job: the previous and next jobs of its key, or of its group."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from msgspec import Struct

from lockwork.app.lockwork import Lockwork
from lockwork.jobs.search import JobFilter, JobPage, JobRow, JobState
from lockwork.jobs.snapshot import JobSnapshot

_AROUND = 3
"""Number of neighbors to show on each side."""
_STATES: tuple[JobState, ...] = ("done", "running", "ready", "scheduled")
_READ = 100
"""Number of jobs to read in each state."""


class Neighbors(Struct, frozen=True):
    """Jobs of one key or group in their order, with the job itself among them."""

    kind: str
    """"key" or "group"."""
    name: str
    rows: list[JobRow]
    before: int | None
    """Number of jobs before the first row; None if not all were searched."""
    after: int | None
    """Number of jobs after the last row; None as above."""
    ahead: list[JobRow]
    """Jobs that run or are ready, before this job; empty if it does not wait."""


async def read_neighbors(lw: Lockwork, job: JobSnapshot) -> Neighbors | None:
    """Read the neighbors of a job; return None if it has neither a key nor a group, or has no neighbors."""
    kind, name = ("group", job.group) if job.key is None else ("key", job.key)
    if name is None:
        return None

    def read(state: JobState) -> Awaitable[JobPage]:
        matching = JobFilter(state=state, key=name) if kind == "key" else JobFilter(state=state, group=name)
        # for ended and scheduled jobs, the first results are the nearest
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
