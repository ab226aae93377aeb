"""Finds jobs that wait for results of jobs that no worker can start, from what workers announce.

A job that waits for a result keeps its slot, and its runner. If such jobs occupy all slots of a queue's workers, the
awaited jobs of this queue never start; and a job that waits for an awaited job that never starts is stuck, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from msgspec import Struct

from lockwork.workers import AwaitedJob, RunningJob, Worker

LEAST = 10.0
"""Seconds that a job must have waited: announcements are up to 7 s old, and of different times."""
_Key = tuple[str, str]


Lack = Literal["slot", "runner", ""]
"""The missing resource of a job that cannot start; "": the job runs, and waits for a result itself."""


class StuckJob(Struct, frozen=True):
    """A job that waits for results that cannot come."""

    job: RunningJob
    worker: Worker
    awaited: AwaitedJob
    """A job whose result it waits for."""
    lack: Lack
    """The missing resource of the awaited job."""


def stuck_jobs(workers: Iterable[Worker]) -> list[StuckJob]:
    """Return all stuck jobs: first the jobs that wait for a job without a slot or runner, in the order of the workers.

    More slots or runners help these jobs at once. Each job that a stuck job awaits is stuck itself, or lacks a slot or
    runner. A job that waits for a queue without workers is not stuck: a separate rule of `doctor` finds it.
    """
    alive = [worker for worker in workers if worker.alive]
    stuck = {
        (job.queue, job.id): (job, worker) for worker in alive for job in worker.jobs if _is_old(job) or _queues(job)
    }
    while True:
        full, working = _full_queues(alive, stuck), _working_runners(alive, stuck)
        freed = [
            key
            for key, (job, worker) in stuck.items()
            if (_queues(job) and (worker.name, job.process) in working)
            or any(each.queue not in full and (each.queue, each.id) not in stuck for each in job.waits_for)
        ]
        if not freed:
            break
        for key in freed:
            del stuck[key]
    entries = [
        StuckJob(job, worker, awaited, _lack(awaited, stuck))
        for job, worker in stuck.values()
        for awaited in job.waits_for[:1]
    ]
    return sorted(entries, key=lambda each: not each.lack)


def _is_old(job: RunningJob) -> bool:
    return bool(job.waits_for) and min(each.seconds for each in job.waits_for) >= LEAST


def _queues(job: RunningJob) -> bool:
    """Return True if the job waits for a runner."""
    return job.runner == "waits"


def _full_queues(workers: Iterable[Worker], stuck: Mapping[_Key, object]) -> set[str]:
    """Return the queues whose workers have no slot that a stuck job does not keep."""
    served: set[str] = set()
    room: set[str] = set()
    for worker in workers:
        if worker.state == "running":  # others take no jobs; a separate rule finds them
            served.update(worker.queues)
            if not _is_full(worker, stuck):
                room.update(worker.queues)
    return served - room


def _is_full(worker: Worker, stuck: Mapping[_Key, object]) -> bool:
    listed = [job for job in worker.jobs if job.waits_for]
    count = sum(1 for job in worker.jobs if (job.queue, job.id) in stuck)
    if all((job.queue, job.id) in stuck for job in listed):
        count += max(0, worker.waiting - len(listed))  # assume that unnamed jobs wait for the same queues
    return 0 < worker.slots <= count


def _working_runners(workers: Iterable[Worker], stuck: Mapping[_Key, object]) -> set[tuple[str, int]]:
    """Return the worker processes, by worker and number, with a runner whose job is not stuck; or with none."""
    busy_processes: set[tuple[str, int]] = set()
    working: set[tuple[str, int]] = set()
    for worker in workers:
        for job in worker.jobs:
            if job.runner == "runs":
                busy_processes.add((worker.name, job.process))
                if (job.queue, job.id) not in stuck:
                    working.add((worker.name, job.process))
    return working | {(worker.name, job.process) for worker in workers for job in worker.jobs} - busy_processes


def _lack(awaited: AwaitedJob, stuck: Mapping[_Key, tuple[RunningJob, Worker]]) -> Lack:
    entry = stuck.get((awaited.queue, awaited.id))
    if entry is None:
        return "slot"
    return "runner" if _queues(entry[0]) else ""
