"""Enqueuing, after a commit, what was kept back until then."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby

from lockwork.errors import JobNotReplicated, LockworkError, NotEnqueued
from lockwork.logs import Log
from lockwork.protocol.effects import Call, Protocol
from lockwork.protocol.queues.enqueue import NewJob
from lockwork.runtime.runtime import Runtime

log: Log = Log("lockwork")


@dataclass(frozen=True, slots=True)
class Enqueuer:
    """How the jobs of a task, with its options, are enqueued."""

    runtime: Runtime
    push: Callable[[list[NewJob]], Protocol[object]]


@dataclass(frozen=True, slots=True)
class PendingJob:
    """A job that is enqueued when its transaction has been committed."""

    way: Enqueuer
    job: NewJob


def send(kept: Sequence[PendingJob], *, again: bool = False) -> None:
    """Enqueue them now. Raises NotEnqueued, or JobNotReplicated when all else is done.

    `again`: somebody else was about to, and the server may have some of them.
    """
    end = _Ending(kept)
    for way, jobs in end.batches():
        try:
            way.runtime.run(_again(way.push(jobs)) if again else way.push(jobs))
        except LockworkError as error:
            end.failed(error, jobs)
    end.tell()


async def asend(kept: Sequence[PendingJob]) -> None:
    """Async version of `send`."""
    end = _Ending(kept)
    for way, jobs in end.batches():
        try:
            await way.runtime.arun(way.push(jobs))
        except LockworkError as error:
            end.failed(error, jobs)
    end.tell()


def deliver(kept: Sequence[PendingJob]) -> asyncio.Task[None] | None:
    """Enqueue them now; on the thread of a running event loop, by a task, which is returned.

    If that is cancelled, as whatever is under way at the end of `asyncio.run`, a thread does it: they are committed.
    """
    loop = asyncio._get_running_loop()  # noqa: SLF001 - documented, and much cheaper than an exception
    if loop is None:
        send(kept)
        return None
    task = loop.create_task(asend(kept), name="lockwork-on-commit")
    _tasks.add(task)
    task.add_done_callback(partial(_ended, kept))
    return task


class _Ending:
    """What has become of them so far."""

    def __init__(self, kept: Sequence[PendingJob]) -> None:
        self._kept = kept
        self._sent = 0
        self._missing: JobNotReplicated | None = None

    def batches(self) -> Iterator[tuple[Enqueuer, list[NewJob]]]:
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


def _ended(kept: Sequence[PendingJob], task: asyncio.Task[None]) -> None:
    _tasks.discard(task)
    if task.cancelled():
        # one of the loop's threads, because `asyncio.run` waits for these
        task.get_loop().run_in_executor(None, _send_again, kept)
    elif (error := task.exception()) is not None:
        log.error("after a commit: %s", error)


def _send_again(kept: Sequence[PendingJob]) -> None:
    try:
        send(kept, again=True)
    except Exception as error:  # noqa: BLE001 - nobody is there any more who could be told otherwise
        log.error("after a commit: %s", error)


def _again(pushing: Protocol[object]) -> Protocol[object]:
    """Run it with each call as after a lost reply: then what the server has is not enqueued twice."""
    reply: object = None
    while True:
        try:
            effect = pushing.send(reply)
        except StopIteration as done:
            return done.value
        reply = yield effect.again() if isinstance(effect, Call) else effect
