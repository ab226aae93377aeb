"""Enqueuing, after a commit, what was kept back until then."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from lockwork.errors import JobNotReplicated, LockworkError, NotEnqueued
from lockwork.logs import Log
from lockwork.protocol.effects import Protocol
from lockwork.protocol.queues.pushing import NewJob
from lockwork.runtime.runtime import Runtime

log: Log = Log("lockwork")


@dataclass(frozen=True, slots=True)
class Way:
    """How the jobs of a task, with its options, are enqueued."""

    runtime: Runtime
    push: Callable[[list[NewJob]], Protocol[object]]


@dataclass(frozen=True, slots=True)
class Kept:
    """A job that is enqueued when its transaction has been committed."""

    way: Way
    job: NewJob


def send(kept: Sequence[Kept]) -> None:
    """Enqueue them now. Raises NotEnqueued, or JobNotReplicated when all else is done."""
    end = _Ending(kept)
    for way, jobs in end.batches():
        try:
            way.runtime.run(way.push(jobs))
        except LockworkError as error:
            end.failed(error, jobs)
    end.tell()


async def asend(kept: Sequence[Kept]) -> None:
    """The same for a task."""
    end = _Ending(kept)
    for way, jobs in end.batches():
        try:
            await way.runtime.arun(way.push(jobs))
        except LockworkError as error:
            end.failed(error, jobs)
    end.tell()


def deliver(kept: Sequence[Kept]) -> asyncio.Task[None] | None:
    """Enqueue them now; on the thread of a running event loop, by a task, which is returned."""
    loop = asyncio._get_running_loop()  # noqa: SLF001 - documented, and much cheaper than an exception
    if loop is None:
        send(kept)
        return None
    task = loop.create_task(asend(kept), name="lockwork-on-commit")
    _tasks.add(task)
    task.add_done_callback(_ended)
    return task


class _Ending:
    """What has become of them so far."""

    def __init__(self, kept: Sequence[Kept]) -> None:
        self._kept = kept
        self._sent = 0
        self._missing: JobNotReplicated | None = None

    def batches(self) -> Iterator[tuple[Way, list[NewJob]]]:
        """Those that go the same way, together."""
        for way, batch in groupby(self._kept, key=lambda each: each.way):
            jobs = [each.job for each in batch]
            yield way, jobs
            self._sent += len(jobs)

    def failed(self, error: LockworkError, jobs: list[NewJob]) -> None:
        """A batch was not enqueued, or too few replicas have it."""
        if isinstance(error, JobNotReplicated):
            self._missing = self._missing or error
            return
        ids = tuple(each.job.id for each in self._kept[self._sent :])
        raise NotEnqueued(
            f"the transaction is committed, but {len(ids)} of its jobs could not be enqueued, {jobs[0].id} and what "
            f"follows: {error}",
            ids,
        ) from error

    def tell(self) -> None:
        """Raise what is left to say."""
        if self._missing is not None:
            raise self._missing


_tasks: set[asyncio.Task[None]] = set()


def _ended(task: asyncio.Task[None]) -> None:
    _tasks.discard(task)
    error = None if task.cancelled() else task.exception()
    if error is not None:
        log.error("after a commit: %s", error)
