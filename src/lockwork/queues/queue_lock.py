"""A lock that belongs to a queue, so that its release can enqueue a job in the same step."""

from __future__ import annotations

from typing import Any, Unpack

from msgspec import Struct

from lockwork.config import Config
from lockwork.errors import ConfigError, LockLost, NotHeld
from lockwork.failures import Errors
from lockwork.ids import new_id
from lockwork.jobs.job import Job, Origin
from lockwork.locks.grant import Grant
from lockwork.locks.hold import Hold, release
from lockwork.locks.lock import ExclusiveLock
from lockwork.locks.options import ExclusiveSettings, LockOptions
from lockwork.owners import Owner
from lockwork.partitions import Partitions
from lockwork.protocol.effects import Protocol
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.locks.leases import Lease
from lockwork.protocol.names import checked_name, stored
from lockwork.protocol.queue.enqueue import NewJob, release_and_push
from lockwork.runtime.drive import no_running_loop
from lockwork.runtime.runtime import Runtime
from lockwork.tasks.call import TaskCall


class QueueGrant(Grant):
    """A grant of a queue's lock."""

    __slots__ = ("_enqueuing",)

    def __init__(self, hold: QueueHold) -> None:
        super().__init__(hold)
        self._enqueuing = hold

    def release_and_enqueue(self, call: TaskCall) -> Job[Any]:
        """Release the lock completely, even if it was reentered, and enqueue `call` in the same step.

        Raises LockLost if the lease has ended; then nothing was enqueued, because another holder may have done the
        work. Raises NotHeld, or ConfigError if the task has another queue; then the grant does not change.
        """
        no_running_loop()
        return self._enqueuing.options.runner.run(self._enqueuing.end_with(call))

    async def arelease_and_enqueue(self, call: TaskCall) -> Job[Any]:
        """Async version of `release_and_enqueue`; if cancelled, it still does both, unless the lease had ended."""
        return await self._enqueuing.options.runner.arun(self._enqueuing.end_with(call))


class LockedQueue(Struct, frozen=True):
    """The queue of a lock, as its jobs need it."""

    name: str
    keys: QueueKeys
    partitions: Partitions
    errors: Errors | None


class QueueHold(Hold[QueueGrant]):
    """A queue's lock held by one thread or task."""

    __slots__ = ("queue",)
    grant_class = QueueGrant

    def __init__(self, options: LockOptions, owner: Owner, lease: Lease, since: float, queue: LockedQueue) -> None:
        self.queue: LockedQueue = queue
        super().__init__(options, owner, lease, since)

    def end_with(self, call: TaskCall) -> Protocol[Job[Any]]:
        """Forget the hold, and return what ends it on the server and enqueues `call`. Raises NotHeld, ConfigError."""
        job = self._job(call)
        keep_ms = next(iter(self.release_arguments()), 0)
        ended = self.forget()
        if ended is None:
            self._check_struck()
            raise NotHeld(f"{self.shown} was already released, so nothing was enqueued")
        return self._release_and_enqueue(*ended, keep_ms, job)

    def _job(self, call: TaskCall) -> NewJob:
        lock, queue = f"lock {self.options.label!r}", self.queue
        if not isinstance(call, TaskCall):
            raise ConfigError(f"a lock is released with a call of a task, such as send.call(42), not {call!r:.60}")
        if not queue.partitions.belongs(queue.name, call.queue, call.record, lock):
            raise ConfigError(
                f"{lock} lives with queue {queue.name!r} and the task's queue is {call.queue!r}: "
                f"one atomic step needs one queue, so make it lw.queue({call.queue!r}).lock({self.options.label!r})"
            )
        job, payloads = call.job(new_id()), self.options.runtime.payloads
        return job if payloads is None else job._replace(record=payloads.seal_call(queue.name, job.id, job.record))

    def _release_and_enqueue(self, lease: Lease, in_time: bool, keep_ms: int, job: NewJob) -> Protocol[Job[Any]]:
        runtime, queue = self.options.runtime, self.queue
        try:
            if in_time:  # by our own clock, which is never later than the server's
                released = yield from release_and_push(queue.keys, lease.renewal, keep_ms, job)
            else:
                yield from release(lease, (), self.options.scripts)
                released = False
        except BaseException:
            # refused or interrupted: if it is still ours, the next waiter must not wait until the lease has ended
            if in_time:
                runtime.engine.give_back(lease)
            raise
        if not released:
            raise LockLost(
                f"the lease of {self.shown} ended before it was released: another process may have held it, and "
                "nothing was enqueued"
            )
        return Job(Origin(runtime, queue.keys, errors=queue.errors), job.id)


class QueueLock(ExclusiveLock[QueueGrant]):
    """See `lw.queue(...).lock(...)`: a lock stored with the queue; it is separate from `lw.lock`."""

    def __init__(
        self,
        runtime: Runtime,
        config: Config,
        queue: str,
        name: str,
        *,
        errors: Errors | None = None,
        **settings: Unpack[ExclusiveSettings[QueueGrant]],
    ) -> None:
        self._whole_queue, self._config, self._errors = queue, config, errors
        self._place(checked_name(name, self._what()))
        super().__init__(runtime, config, name, **settings)

    def _new_hold(self, owner: Owner, lease: Lease, since: float) -> Hold[QueueGrant]:
        return QueueHold(self._options, owner, lease, since, self._queue)

    def _place(self, name: str) -> None:
        """Set the queue, or the partition that the name decides."""
        partitions = self._config.partitions
        self.queue: str = partitions.place(self._whole_queue, stored(name))
        keys = QueueKeys(self._config.prefix, self.queue)
        self._queue = LockedQueue(self.queue, keys, partitions, self._errors)

    def _rename(self, name: str) -> None:
        self._place(name)
        super()._rename(name)

    def _key_of(self, name: str) -> str:
        return self._queue.keys.lock(name)

    def __repr__(self) -> str:
        return f"<QueueLock {self._options.label!r} queue={self.queue!r}>"
