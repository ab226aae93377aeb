"""How jobs are put into a queue."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import NamedTuple

from lockwork.errors import JobNotReplicated, QueueFull
from lockwork.protocol.effects import Argument, Call, Protocol, script_call
from lockwork.protocol.keys import QueueKeys, process
from lockwork.protocol.locks.grants import Renewal
from lockwork.protocol.queues.limits import room_for
from lockwork.protocol.retry import insist


def release_and_push(queue: QueueKeys, grant: Renewal, keep_ms: int, job: NewJob) -> Protocol[bool]:
    """End the grant and enqueue the job; False when its lease was over before, and then nothing was enqueued.

    The lock stays taken for `keep_ms` more. Raises QueueFull, and then nothing was done.
    """
    args = [0, grant.owner, grant.fence, keep_ms, *push_arguments([job])]
    call = script_call("lock_release_push", queue, args, lock=grant.key)
    return bool(room_for(queue, (yield from insist(call))))


PUSH_BATCH = 500
CALL_BYTES = 1 << 20
"""Bytes of records or results in one call, unless a single one is larger: a large call holds up all others."""
_PLAIN = re.compile(rb"[012],\d+,,;")
"""One with a cap of deliveries is never offered along with a wake-up, so it goes another way."""


class NewJob(NamedTuple):
    """A job as the server stores it: its record is `head` and body."""

    id: str
    record: bytes
    delay_ms: int = 0
    """Ms until it may run; a negative number is the moment, in ms since 1970."""


def push_arguments(jobs: Sequence[NewJob]) -> list[Argument]:
    """What such a script reads of the jobs."""
    args: list[Argument] = []
    for job in jobs:
        args += (job.id, job.record, job.delay_ms)
    return args


def batch_arguments(jobs: Sequence[NewJob], at: int, most: int = PUSH_BATCH) -> list[Argument]:
    """Return what one call can take of the jobs from number `at` on: at least one."""
    args = push_arguments(jobs[at : at + most])
    sizes = list(map(len, args[1::3]))  # type: ignore[arg-type]  # the records
    if sum(sizes) > CALL_BYTES:
        del args[3 * max(1, bisect_right(list(accumulate(sizes)), CALL_BYTES)) :]
    return args


def push(
    queue: QueueKeys,
    jobs: Sequence[NewJob],
    replicas: int = 0,
    expires_ms: int | None = None,
    *,
    some: bool = False,
    also: Callable[[Sequence[NewJob]], object] | None = None,
) -> Protocol[int]:
    """Enqueue the jobs, in batches; returns how many were not there yet.

    With `expires_ms`, those that have not begun within that time, or by the moment -`expires_ms`, expire. `also` is
    called for each batch before it is sent, if possible while the server works. Raises QueueFull: nothing of the batch
    that met a full queue, or of those behind it, is enqueued; with `some`, for jobs that do not expire, its first are
    for which there was room. With `replicas`, raises JobNotReplicated when fewer had them in time; they are
    enqueued anyway.
    """
    name = "jobs_push" if expires_ms is None else "jobs_push_until"
    args: list[Argument] = [0, int(some) if expires_ms is None else expires_ms]
    call = script_call(name, queue, args, finds_ended=True, ordered=True)
    if replicas:
        if also is not None:
            also(jobs)
        return (yield from push_replicated(queue, call, jobs, replicas))
    first = batch_arguments(jobs, 0)
    if len(first) == 3 * len(jobs):
        if also is not None:
            also(jobs)
        args += first
        if name == "jobs_push" and len(jobs) == 1 and not jobs[0].delay_ms and _PLAIN.match(jobs[0].record):
            return (yield from _one(queue, jobs[0], call))
        return room_for(queue, (yield call), jobs=len(jobs))
    new, before, batches = 0, 0, _Batches(call, jobs, also)
    while (one := batches.take()) is not None:
        count = (len(one.args) - len(args)) // 3
        new += room_for(queue, (yield one), before, jobs=count)
        before += count
    return new


def _one(queue: QueueKeys, job: NewJob, otherwise: Call) -> Protocol[int]:
    """Enqueue one plain job which may run at once, by a shorter call.

    A worker that sleeps is given it by that call, if it is the one that the last such call has named.
    """
    ready = queue.ready[job.record[0] - 48]
    if channel := queue.sleeper:
        session = process(channel)
        args: tuple[Argument, ...] = (job.id, job.record, session, channel)
        run = queue.run(session)
        reply = yield script_call("job_push", queue, args, otherwise=otherwise, ordered=True, ready=ready, run=run)
    else:
        args = (job.id, job.record)
        reply = yield script_call("job_push", queue, args, otherwise=otherwise, ordered=True, ready=ready)
    if isinstance(reply, bytes):
        queue.sleeper = reply.decode()
        return 1
    return room_for(queue, reply)


class _Batches:
    """Calls that enqueue jobs; each is prepared while the server works on the one before."""

    def __init__(self, call: Call, jobs: Sequence[NewJob], also: Callable[[Sequence[NewJob]], object] | None) -> None:
        self._call = call
        self._jobs = jobs
        self._also = also
        self._prepared = 0
        self._next: Call | None = None

    def take(self) -> Call | None:
        """Return the next call, None when there is no more."""
        call, self._next = self._ahead(), None
        return call

    def _ahead(self) -> Call | None:
        if self._next is None and self._prepared < len(self._jobs):
            batch = batch_arguments(self._jobs, self._prepared)
            begin, self._prepared = self._prepared, self._prepared + len(batch) // 3
            if self._also is not None:
                self._also(self._jobs[begin : self._prepared])
            self._next = replace(self._call, args=[*self._call.args, *batch], ahead=self._ahead)
        return self._next


def push_replicated(queue: QueueKeys, call: Call, jobs: Sequence[NewJob], replicas: int) -> Protocol[int]:
    """Send `call` with the jobs, in batches, and wait until so many replicas have each.

    When one has too few in time, those that follow are enqueued without waiting, so that it does not take for ever.
    Then JobNotReplicated is raised, from QueueFull if there was no room for all of them.
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
