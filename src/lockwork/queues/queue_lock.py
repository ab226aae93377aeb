"""A lock that lives with a queue, so that its release can enqueue a job in the same step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, cast

from lockwork.config import Config
from lockwork.durations import Duration
from lockwork.errors import ConfigError, LockLost, NotHeld
from lockwork.failures import Errors
from lockwork.ids import new_id
from lockwork.jobs.job import Job, Origin
from lockwork.locks.grant import Grant, OnLost
from lockwork.locks.lock import Lock
from lockwork.protocol.effects import Protocol
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.locks.leases import Lease
from lockwork.protocol.queues.enqueue import NewJob, release_and_push
from lockwork.runtime.runtime import Runtime
from lockwork.runtime.sync_driver import no_running_loop
from lockwork.tasks.call import TaskCall


class QueueGrant(Grant):
    """A grant of a queue's lock."""

    __slots__ = ()

    def release_and_enqueue(self, call: TaskCall) -> Job[Any]:
        """Give the lock back, however often it was entered, and enqueue `call` in the same step.

        Raises LockLost, and then nothing was enqueued: somebody else may have gone on where this holder began.
        Raises NotHeld, or ConfigError when the task has another queue, and then the grant is as it was.
        """
        no_running_loop()
        handle = self._queue_lock()
        job = handle._job(call)
        ended = handle._forget_for(self)
        return handle._enqueued(self, job, released=handle._runtime.run(handle._leaving(ended, job)))

    async def arelease_and_enqueue(self, call: TaskCall) -> Job[Any]:
        """Async version of `release_and_enqueue`; if cancelled, it still does both, unless the lease had ended."""
        handle = self._queue_lock()
        job = handle._job(call)
        ended = handle._forget_for(self)
        return handle._enqueued(self, job, released=await handle._runtime.arun(handle._leaving(ended, job)))

    def _queue_lock(self) -> QueueLock:
        return cast("QueueLock", self._handle)


class QueueLock(Lock):
    """See `lw.queue(...).lock(...)`: a lock whose key lies with the queue's. It is none of those of `lw.lock`."""

    grant_class: ClassVar[type[Grant]] = QueueGrant

    def __init__(
        self,
        runtime: Runtime,
        config: Config,
        queue: str,
        name: str,
        *,
        wait: Duration | None,
        lease: Duration | None,
        on_lost: OnLost | None,
        tags: Sequence[str],
        at_least: Duration | None,
        replicas: int,
        errors: Errors | None = None,
    ) -> None:
        self.queue: str = queue
        self._errors = errors
        self._partitions = config.partitions
        self._queue_keys = QueueKeys(config.prefix, queue)
        super().__init__(
            runtime,
            config,
            name,
            wait=wait,
            lease=lease,
            on_lost=on_lost,
            tags=tags,
            at_least=at_least,
            replicas=replicas,
        )

    def acquire(self, wait: Duration | None = None) -> QueueGrant:
        """As of every lock."""
        return cast("QueueGrant", super().acquire(wait))

    async def aacquire(self, wait: Duration | None = None) -> QueueGrant:
        """Async version of `acquire`."""
        return cast("QueueGrant", await super().aacquire(wait))

    def try_acquire(self) -> QueueGrant | None:
        """Take the lock if it is free and has no waiters; None otherwise."""
        return cast("QueueGrant | None", super().try_acquire())

    async def atry_acquire(self) -> QueueGrant | None:
        """Async version of `try_acquire`."""
        return cast("QueueGrant | None", await super().atry_acquire())

    def adopt(self, exported: str) -> QueueGrant:
        """Go on with a grant that was exported, under a higher fence. Raises LockLost when its lease has ended."""
        return cast("QueueGrant", super().adopt(exported))

    async def aadopt(self, exported: str) -> QueueGrant:
        """Async version of `adopt`."""
        return cast("QueueGrant", await super().aadopt(exported))

    def __enter__(self) -> QueueGrant:
        return cast("QueueGrant", super().__enter__())

    async def __aenter__(self) -> QueueGrant:
        return cast("QueueGrant", await super().__aenter__())

    def _key_of(self, name: str) -> str:
        return self._queue_keys.lock(name)

    def _job(self, call: TaskCall) -> NewJob:
        if not isinstance(call, TaskCall):
            raise ConfigError(f"a lock is released with a call of a task, such as send.call(42), not {call!r:.60}")
        if not self._partitions.belongs(self.queue, call.queue, call.record, f"lock {self.name!r}"):
            raise ConfigError(
                f"lock {self.name!r} lives with queue {self.queue!r} and the task's queue is {call.queue!r}: "
                f"one atomic step needs one queue, so make it lw.queue({call.queue!r}).lock({self.name!r})"
            )
        return call.job(new_id())

    def _forget_for(self, grant: Grant) -> tuple[Lease, bool, int]:
        """It is not held any more; returns its lease, whether that still ran, and how long to keep the lock (ms)."""
        keep_ms = next(iter(self._ending(grant)), 0)
        ended = self._forget(grant)
        if ended is None:
            raise NotHeld(f"{self.noun} {grant.name!r} was released before, so nothing was enqueued")
        return (*ended, keep_ms)

    def _leaving(self, ended: tuple[Lease, bool, int], job: NewJob) -> Protocol[bool]:
        lease, in_time, keep_ms = ended
        if not in_time:  # by our own clock, which is never later than the server's
            yield from self._end(lease, ())
            return False
        try:
            return (yield from release_and_push(self._queue_keys, lease.renewal, keep_ms, job))
        except BaseException:
            # refused or interrupted: if it is still ours, the next in line must not wait until the lease has ended
            self._runtime.engine.give_back(lease)
            raise

    def _enqueued(self, grant: Grant, job: NewJob, *, released: bool) -> Job[Any]:
        if not released:
            raise LockLost(
                f"the lease of {self.noun} {grant.name!r} ended before it was released: somebody else may have held "
                "it, and nothing was enqueued"
            )
        return Job(Origin(self._runtime, self._queue_keys, errors=self._errors), job.id)

    def __repr__(self) -> str:
        return f"<QueueLock {self.name!r} queue={self.queue!r}>"
