"""The errors that Lockwork raises: one root, one class per situation. A message says what happened and what to do."""

from __future__ import annotations


class LockworkError(Exception):
    """Base class of all errors of Lockwork."""


class ConfigError(LockworkError, ValueError):
    """An argument, name, URL or setting is invalid; nothing was sent to the server."""


class BlockingCallError(LockworkError, RuntimeError):
    """The thread of a running event loop made a blocking call: use the `a`-prefixed method there.

    Also raised in a signal handler that interrupted Lockwork while it opened a connection.
    """


class ServerUnavailable(LockworkError, ConnectionError):
    """The server could not be reached within `patience`."""


class ServerRefused(LockworkError):
    """The server refused a command: wrong password, missing rights, out of memory, or a key of another type."""


class ServerUnsuitable(LockworkError):
    """The server would lose locks or jobs (it is too old, a read-only replica, or evicts keys), or lacks functions."""


class FunctionsMissing(ServerUnsuitable):
    """The server lacks the function library that users without EVAL need to read: run `lockwork functions load`."""


class LockTimeout(LockworkError, TimeoutError):
    """The lock was not granted within `wait`; the caller no longer waits for it."""


class LockLost(LockworkError):
    """The lease ended while the holder was still working; its writes since then may overlap with the next holder's."""


class NotReplicated(LockworkError):
    """Too few replicas confirmed a write in time. A grant was released again."""


class JobNotReplicated(NotReplicated):
    """Too few replicas confirmed the jobs in time: they are enqueued, and run unless a failover loses them.

    Enqueuing them once more would run them twice. `ids`: the jobs whose replication was not confirmed, in order.
    If a full queue refused the jobs after them, `__cause__` is that QueueFull.
    """

    def __init__(self, message: str, ids: tuple[str, ...]) -> None:
        super().__init__(message)
        self.ids: tuple[str, ...] = ids

    def __reduce__(self) -> tuple[type[JobNotReplicated], tuple[str, tuple[str, ...]]]:
        return type(self), (str(self), self.ids)


class NotHeld(LockworkError, RuntimeError):
    """A thread or asyncio task released a lock without holding it; nothing changed."""


class WouldDeadlock(LockworkError, RuntimeError):
    """The caller would wait for itself, for instance by upgrading a read lock; nothing changed."""


class StaleFence(LockworkError):
    """The store has seen a higher fence: the grant behind this write has ended, and nothing was written.

    `fence`: the refused fence. `seen`: the fence that the store has.
    """

    def __init__(self, message: str, fence: int, seen: int) -> None:
        super().__init__(message)
        self.fence: int = fence
        self.seen: int = seen

    def __reduce__(self) -> tuple[type[StaleFence], tuple[str, int, int]]:
        return type(self), (str(self), self.fence, self.seen)


class NoSuchRow(LockworkError, LookupError):
    """A fenced update found no row with this key; nothing was written."""


class WaitTimeout(LockworkError, TimeoutError):
    """The awaited event did not happen within `timeout`; the caller no longer waits."""


class RateLimited(LockworkError):
    """A limiter has too few free units within `wait`, and took none. `retry_after`: seconds until they will be free."""

    def __init__(self, message: str, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after: float = retry_after

    def __reduce__(self) -> tuple[type[RateLimited], tuple[str, float]]:
        return type(self), (str(self), self.retry_after)


class OnceFailed(LockworkError):
    """The run of this period failed, and is not repeated within it. `type` and `text` describe its error."""

    def __init__(self, message: str, type: str, text: str) -> None:
        super().__init__(message)
        self.type: str = type
        self.text: str = text

    def __reduce__(self) -> tuple[type[OnceFailed], tuple[str, str, str]]:
        return OnceFailed, (str(self), self.type, self.text)


class SoldOut(LockworkError):
    """Fewer units are on sale than requested; some may return when reservations end unpaid."""


class NotEnqueued(LockworkError):
    """A database transaction was committed, but enqueueing its jobs failed or its effect is unknown.

    `ids`: the ids of those jobs.
    """

    def __init__(self, message: str, ids: tuple[str, ...]) -> None:
        super().__init__(message)
        self.ids: tuple[str, ...] = ids

    def __reduce__(self) -> tuple[type[NotEnqueued], tuple[str, tuple[str, ...]]]:
        return type(self), (str(self), self.ids)


class LimitReached(LockworkError):
    """The buyer's reserved and bought units would exceed the stock's limit per buyer."""


class ReservationEnded(LockworkError):
    """The reservation is no longer in the state that this call needs (expired, released, or already confirmed)."""


class QueueFull(LockworkError):
    """A queue is full: `waiting` jobs wait in `queue`, and its size limit is `limit`.

    Of a batch, the first `enqueued` jobs are enqueued, a multiple of 500. Of a batch that was split among partitions,
    `enqueued` jobs are enqueued, and `missing` lists the positions of the others, from 0.
    """

    def __init__(
        self, message: str, queue: str, waiting: int, limit: int, enqueued: int = 0, missing: tuple[int, ...] = ()
    ) -> None:
        super().__init__(message)
        self.queue: str = queue
        self.waiting: int = waiting
        self.limit: int = limit
        self.enqueued: int = enqueued
        self.missing: tuple[int, ...] = missing

    def __reduce__(self) -> tuple[type[QueueFull], tuple[str, str, int, int, int, tuple[int, ...]]]:
        return type(self), (str(self), self.queue, self.waiting, self.limit, self.enqueued, self.missing)


class UnknownTask(LockworkError, LookupError):
    """No task of that name is registered with this Lockwork object."""


class RetryUntilPassed(LockworkError, TimeoutError):
    """The job's `retry_until` passed before its next attempt could begin: the job is dead."""


class PayloadTooLarge(LockworkError, ValueError):
    """The encoded arguments or result exceed the size limit; nothing was sent."""


class PayloadRejected(LockworkError):
    """A stored payload is not encrypted or signed as the app requires, or it was changed, or moved from another job."""


class PayloadKeyUnknown(PayloadRejected):
    """A stored payload is encrypted or signed with a key that this app does not have."""


class JobFailed(LockworkError):
    """The job ended without a result: it failed for good or was cancelled.

    `type`, `text` and `traceback` describe the error that its task raised.
    """

    def __init__(self, message: str, type: str = "", text: str = "", traceback: str = "") -> None:
        super().__init__(message)
        self.type: str = type
        self.text: str = text
        self.traceback: str = traceback

    def __reduce__(self) -> tuple[type[JobFailed], tuple[str, str, str, str]]:
        return type(self), (str(self), self.type, self.text, self.traceback)


class JobCancelled(JobFailed):
    """The job was cancelled. Raised inside a `def` job while it is being cancelled."""

    def __init__(
        self, message: str = "the job is being cancelled", type: str = "", text: str = "", traceback: str = ""
    ) -> None:
        super().__init__(message, type, text, traceback)


class WorkerDied(LockworkError):
    """The process that ran the job died or was stopped, and the job has no start left: it is in the dead set."""


class JobTimeout(TimeoutError):
    """The attempt took longer than its task's timeout."""

    def __init__(self, message: str = "it exceeded its task's timeout") -> None:
        super().__init__(message)


class JobExpired(JobFailed):
    """The job did not start in time, and does not run."""


class DeliveryOver(LockworkError):
    """The delivery has ended: its lease ran out, or it was settled. Nothing was written."""


class ResultUnavailable(LockworkError, LookupError):
    """The job has no readable result: it expired, was never kept, has another type, or the job is unknown."""


class ResultTimeout(LockworkError, TimeoutError):
    """The job did not end within the time to wait for its result; it may still run."""
