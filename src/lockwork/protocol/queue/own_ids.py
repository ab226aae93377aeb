"""Enqueue jobs with their callers' own ids: a call whose id is in use returns the job that has it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lockwork.protocol.effects import Argument, Protocol, script_call
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue.enqueue import NewJob, batch_arguments
from lockwork.protocol.queue.limits import room_for
from lockwork.protocol.queue.unique import Arrived


def push_own(queue: QueueKeys, jobs: Sequence[NewJob], expires_ms: int | None) -> Protocol[list[Arrived]]:
    """Enqueue the jobs whose ids are free, in batches.

    Raises QueueFull; nothing of the failing batch and all later ones is enqueued.
    """
    limit: Argument = "" if expires_ms is None else expires_ms
    arrived: list[Arrived] = []
    at = count = 0
    while (at := at + count) < len(jobs):
        batch = batch_arguments(jobs, at)
        count = len(batch) // 3
        reply: list[Any] = yield script_call("queue/push_own", queue, [0, limit, *batch])
        if reply and isinstance(reply[0], int):
            room_for(queue, reply, at, jobs=count)
        arrived += [
            Arrived(job.id, "new" if sign == b"n" else "kept")
            for job, sign in zip(jobs[at : at + count], reply, strict=True)
        ]
    return arrived
