"""Grants that a job did not release: they end with the job.

Each call of a job in a thread is a separate owner, like the job's asyncio task. All grants last until the job ends, so
that a dependency can keep its grant from its set-up to its cleanup.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from lockwork import owners
from lockwork.jobs.current import JobContext, SlotContext, slot
from lockwork.locks.abandoned import release_all_of
from lockwork.protocol.queue import records
from lockwork.protocol.queue.leases import Leased

_PAUSES = (0.0, 1.0)
"""Seconds until each check of an unreleased permit: the event loop or a batch may still refer to the job's error."""


class CallInThread:
    """A call in a thread; at its end, the grants it acquired move to its job."""

    __slots__ = ("_jobs", "_slot")

    def __init__(self) -> None:
        self._slot = slot.get()
        self._jobs = _jobs(self._slot)

    def end(self) -> None:
        """Leave the call's grants to the end of the job; release them now if the job has already ended."""
        owner = owners.detach_thread()
        if owner is None:
            return
        mine, jobs = self._slot, self._jobs
        if mine is not None and jobs:
            mine.owners.append(owner)
            if _jobs(mine)[:1] == jobs[:1]:
                return
        release_all_of(owner, _described(jobs))


def end_job(task: asyncio.Task[Any], mine: SlotContext, job: Leased) -> None:
    """Release the remaining grants of a job that ran in the asyncio task."""
    owner = owners.detach_task(task)
    if owner is not None or mine.owners:
        name = records.read(job.record, len(job.record) + 1, job.id).task or "unknown"
        _end(mine, owner, f"job {job.id} ({name})")


def end_calls(task: asyncio.Task[Any] | None, mine: SlotContext, jobs: list[JobContext]) -> None:
    """Release the remaining grants of a batch, or of a job's hooks."""
    owner = None if task is None else owners.detach_task(task)
    if owner is not None or mine.owners:
        _end(mine, owner, _described(jobs))


def _end(mine: SlotContext, owner: owners.Owner | None, described: str) -> None:
    ended, mine.owners = mine.owners, []
    for each in ended if owner is None else [*ended, owner]:
        _release(each, described, _PAUSES)


def _release(owner: owners.Owner, described: str, pauses: Sequence[float]) -> None:
    if not release_all_of(owner, described) and pauses:
        asyncio.get_running_loop().call_later(pauses[0], _release, owner, described, pauses[1:])


def _jobs(mine: SlotContext | None) -> list[JobContext]:
    if mine is None:
        return []
    return list(mine.batch) if mine.batch else [] if mine.job is None else [mine.job]


def _described(jobs: list[JobContext]) -> str:
    if not jobs:
        return "a call in a thread of the worker"
    label = f"job {jobs[0].id} ({jobs[0].task})"
    return label if len(jobs) == 1 else f"the batch of {label} and {len(jobs) - 1} more"
