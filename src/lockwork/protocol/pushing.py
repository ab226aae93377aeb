"""How jobs are put into a queue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from lockwork.errors import JobNotReplicated
from lockwork.protocol.effects import Argument, Call, Protocol
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue_limits import room_for
from lockwork.protocol.scripts import script

PUSH_BATCH = 1000


class NewJob(NamedTuple):
    """A job as the server stores it: its record is `head` and body."""

    id: str
    record: bytes
    delay_ms: int = 0
    """Ms until it may run; a negative number is the moment, in ms since 1970."""


def push_keys(queue: QueueKeys) -> tuple[str, ...]:
    """The keys of every script that can enqueue."""
    return (queue.jobs, *queue.ready, queue.due, queue.idle, queue.stats, *queue.results)


def push_arguments(jobs: Sequence[NewJob]) -> list[Argument]:
    """What such a script reads of the jobs."""
    args: list[Argument] = []
    for job in jobs:
        args += (job.id, job.record, job.delay_ms)
    return args


def push(queue: QueueKeys, jobs: Sequence[NewJob], replicas: int = 0) -> Protocol[int]:
    """Enqueue the jobs, in batches; returns how many were not there yet.

    Raises QueueFull: nothing of the batch that met a full queue, or of those behind it, is enqueued. With `replicas`,
    raises JobNotReplicated when fewer had them in time; they are enqueued all the same.
    """
    keys, new = (*push_keys(queue), queue.dead), 0
    if replicas:
        return (yield from push_replicated(queue, Call(script("jobs_push"), keys, [0], marked=True), jobs, replicas))
    for at in range(0, len(jobs), PUSH_BATCH):
        args = [0, *push_arguments(jobs[at : at + PUSH_BATCH])]
        new += room_for(queue, (yield Call(script("jobs_push"), keys, args, marked=True)), at)
    return new


def push_until(queue: QueueKeys, jobs: Sequence[NewJob], expires_ms: int, replicas: int = 0) -> Protocol[int]:
    """The same for jobs that must begin within `expires_ms`, or at the moment -`expires_ms`, or else expire."""
    keys, new = (*push_keys(queue), queue.expiry, queue.dead), 0
    if replicas:
        call = Call(script("jobs_push_until"), keys, [0, expires_ms], marked=True)
        return (yield from push_replicated(queue, call, jobs, replicas))
    for at in range(0, len(jobs), PUSH_BATCH):
        args = [0, expires_ms, *push_arguments(jobs[at : at + PUSH_BATCH])]
        new += room_for(queue, (yield Call(script("jobs_push_until"), keys, args, marked=True)), at)
    return new


def push_replicated(queue: QueueKeys, call: Call, jobs: Sequence[NewJob], replicas: int) -> Protocol[int]:
    """Send `call` with the jobs, in batches, and wait until so many replicas have each.

    When one has too few in time, those that follow are enqueued without waiting, so that it does not take for ever.
    Then JobNotReplicated is raised.
    """
    new, missing, had = 0, len(jobs), 0
    for at in range(0, len(jobs), PUSH_BATCH):
        args = [*call.args, *push_arguments(jobs[at : at + PUSH_BATCH])]
        if missing < len(jobs):
            new += room_for(queue, (yield replace(call, args=args)), at)
            continue
        added, acknowledged = yield replace(call, args=args, replicas=replicas)
        new += room_for(queue, added, at)
        if acknowledged < replicas:
            missing, had = at, acknowledged
    if missing < len(jobs):
        ids = tuple(job.id for job in jobs[missing:])
        what = f"job {ids[0]} is" if len(ids) == 1 else f"{len(ids)} jobs are"
        raise JobNotReplicated(
            f"{what} enqueued, but only {had} of {replicas} replicas had it in time: do not enqueue again what must "
            "not run twice",
            ids,
        )
    return new
