"""Enqueue jobs."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from msgspec.structs import replace

from lockwork.errors import JobNotReplicated, QueueFull
from lockwork.protocol.effects import Argument, Call, Protocol, script_call
from lockwork.protocol.keys import QueueKeys, process
from lockwork.protocol.locks.grants import Renewal
from lockwork.protocol.queue.limits import room_for
from lockwork.protocol.queue.priority import is_numbered
from lockwork.protocol.retry import insist


def release_and_push(queue: QueueKeys, grant: Renewal, keep_ms: int, job: NewJob) -> Protocol[bool]:
    """End the grant and enqueue the job. Return False if the lease was already over; the job is then not enqueued.

    The lock stays taken for `keep_ms` more. Raises QueueFull; nothing is changed then.
    """
    args = [0, grant.owner, grant.fence, keep_ms, *push_arguments([job])]
    call = script_call("locks/release_and_push", queue, args, lock=grant.key)
    return bool(room_for(queue, (yield from insist(call))))


PUSH_BATCH = 500
CALL_BYTES = 1 << 20
"""Limit of bytes of records or results per call, because a large call delays all others. One record may exceed it."""
_PLAIN = re.compile(rb"[012],\d+,,;")
"""The header of a plain job. A job with a cap of deliveries does not match: it is never offered with a wake-up."""


class NewJob(NamedTuple):
    """A job as stored: its record is header and body."""

    id: str
    record: bytes
    delay_ms: int = 0
    """Ms until it may run; a negative number is a point in time (ms since 1970)."""


def push_arguments(jobs: Sequence[NewJob]) -> list[Argument]:
    """Return the arguments of a script that enqueues the jobs."""
    args: list[Argument] = []
    for job in jobs:
        args += (job.id, job.record, job.delay_ms)
    return args


def batch_arguments(jobs: Sequence[NewJob], at: int, most: int = PUSH_BATCH) -> list[Argument]:
    """Return the arguments for the jobs from index `at` that fit in one call: at least one job, at most `most`."""
    args = push_arguments(jobs[at : at + most])
    sizes = list(map(len, args[1::3]))  # type: ignore[arg-type]  # the records
    if sum(sizes) > CALL_BYTES:
        del args[3 * max(1, bisect_right(list(accumulate(sizes)), CALL_BYTES)) :]
    return args


def push(
    queue: QueueKeys, jobs: Sequence[NewJob], *, replicas: int = 0, expires_ms: int | None = None, partial: bool = False
) -> Protocol[int]:
    """Enqueue jobs in batches; return how many are new.

    expires_ms: a job that has not started within this time expires; a negative value is a point in time (ms since
    1970).
    partial: when the queue is full, enqueue the first jobs of the batch that fit; not for jobs that expire.

    Raises QueueFull; the failing batch and all later ones are not enqueued. With `replicas`, raises JobNotReplicated;
    the jobs are enqueued anyway.
    """
    name = "queue/push" if expires_ms is None else "queue/push_until"
    args: list[Argument] = [0, int(partial) if expires_ms is None else expires_ms]
    if jobs and is_numbered(jobs[0].record):  # then all are: a call has jobs of one task
        name, args = "queue/push_numbered", [0, "" if expires_ms is None else expires_ms]
    call = script_call(name, queue, args, finds_ended=True, ordered=True)
    if replicas:
        return (yield from push_replicated(queue, call, jobs, replicas))
    first = batch_arguments(jobs, 0)
    if len(first) == 3 * len(jobs):
        args += first
        if name == "queue/push" and len(jobs) == 1 and not jobs[0].delay_ms and _PLAIN.match(jobs[0].record):
            return (yield from _one(queue, jobs[0], call))
        return room_for(queue, (yield call), jobs=len(jobs))
    new, before, batches = 0, 0, _Batches(call, jobs)
    while (one := batches.take()) is not None:
        count = (len(one.args) - len(args)) // 3
        new += room_for(queue, (yield one), before, jobs=count)
        before += count
    return new


def _one(queue: QueueKeys, job: NewJob, otherwise: Call) -> Protocol[int]:
    """Enqueue one plain job that may run at once, with a shorter call.

    Offers the job to the idle worker named by the previous reply.
    """
    ready = queue.ready[job.record[0] - 48]
    if channel := queue.sleeper:
        session = process(channel)
        args: tuple[Argument, ...] = (job.id, job.record, session, channel)
        run = queue.run(session)
        reply = yield script_call(
            "queue/push_one", queue, args, otherwise=otherwise, ordered=True, ready=ready, run=run
        )
    else:
        args = (job.id, job.record)
        reply = yield script_call("queue/push_one", queue, args, otherwise=otherwise, ordered=True, ready=ready)
    if isinstance(reply, bytes):
        queue.sleeper = reply.decode()
        return 1
    return room_for(queue, reply)


class _Batches:
    """Calls that enqueue jobs; each is prepared while the server works on the previous one."""

    def __init__(self, call: Call, jobs: Sequence[NewJob]) -> None:
        self._call = call
        self._jobs = jobs
        self._prepared = 0
        self._next: Call | None = None

    def take(self) -> Call | None:
        """Return the next call; None after the last."""
        call, self._next = self._ahead(), None
        return call

    def _ahead(self) -> Call | None:
        if self._next is None and self._prepared < len(self._jobs):
            batch = batch_arguments(self._jobs, self._prepared)
            self._prepared += len(batch) // 3
            self._next = replace(self._call, args=[*self._call.args, *batch], ahead=self._ahead)
        return self._next


def push_replicated(queue: QueueKeys, call: Call, jobs: Sequence[NewJob], replicas: int) -> Protocol[int]:
    """Send `call` with the jobs, in batches, and wait until `replicas` replicas have each batch.

    After a batch that is not confirmed in time, the later batches are enqueued without a wait. Then raises
    JobNotReplicated, from QueueFull if there was no room for all jobs.
    """
    new, had, missing = 0, replicas, len(jobs)
    full: QueueFull | None = None
    at = count = 0
    while (at := at + count) < len(jobs):
        batch = batch_arguments(jobs, at)
        args, count = [*call.args, *batch], len(batch) // 3
        if had < replicas:
            added = yield replace(call, args=args)
        else:
            added, had = yield replace(call, args=args, replicas=replicas)
            if had < replicas:
                missing = at
        try:
            new += room_for(queue, added, at, jobs=count)
        except QueueFull as error:
            full, jobs = error, jobs[: error.enqueued]
            break
    if missing < len(jobs):
        ids = tuple(job.id for job in jobs[missing:])
        what = f"job {ids[0]} is" if len(ids) == 1 else f"{len(ids)} jobs are"
        others = "" if full is None else f"; those after it are not enqueued: {full}"
        raise JobNotReplicated(
            f"{what} enqueued, but only {had} of {replicas} replicas had it in time: do not enqueue it again if it "
            f"must not run twice{others}",
            ids,
        ) from full
    if full is not None:
        raise full
    return new
