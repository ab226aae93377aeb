"""Read the waiting jobs of a queue without leasing them, and delete them."""

from __future__ import annotations

from dataclasses import dataclass

from lockwork.protocol.effects import Argument, Protocol, script_call
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import records

_PAGE = 200
_SEEN = 2048
"""Bytes to read of each record; the arguments of a longer record are not shown."""


@dataclass(frozen=True, slots=True)
class WaitingJob:
    """One waiting job, at the time of the read; times are in seconds."""

    id: str
    call: records.StoredCall
    attempts: int
    """Number of ended deliveries."""
    age: float | None
    """Time since it was enqueued; None when its id has no time."""
    due_in: float | None
    """Time until it is due, below 0 when it is overdue; None for a ready job."""


def peek(queue: QueueKeys, place: str, skip: int, most: int) -> Protocol[list[WaitingJob]]:
    """Read up to `most` waiting jobs after the first `skip`; `place` is ready or scheduled."""
    jobs: list[WaitingJob] = []
    while most > len(jobs):
        args: list[Argument] = [place, skip, min(_PAGE, most - len(jobs)), _SEEN]
        now, _, looked, _, *entries = yield script_call("queue/peek", queue, args)
        for at in range(0, len(entries), 5):
            id, due, attempts, size, record = entries[at : at + 5]
            name = records.name(id)
            enqueued_at = records.made(name, record)
            age = None if enqueued_at is None else now / 1000 - enqueued_at
            due_in = (due - now) / 1000 if place == "scheduled" else None
            jobs.append(WaitingJob(name, records.read(record, size, name), attempts, age, due_in))
        if not looked:
            break
        skip += looked
    return jobs


def clear(queue: QueueKeys, request: str, window_ms: int) -> Protocol[int]:
    """Delete all waiting jobs and return their number. May also delete jobs enqueued during the call."""
    first = yield script_call("queue/peek", queue, ["ready", 0, 0, 0])
    remaining: list[int] = first[1]
    step, cleared = 0, 0
    while any(remaining):
        step += 1
        *counts, jobs = yield script_call("queue/clear", queue, [step, window_ms, *remaining], log=queue.step(request))
        cleared += jobs
        if not any(counts):
            break
        remaining = [most - count for most, count in zip(remaining, counts, strict=True)]
    return cleared
