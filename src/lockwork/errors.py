"""Every error Lockwork raises: one root, one leaf per situation; each message says what happened and what to do."""

from __future__ import annotations


class LockworkError(Exception):
    """Root of all errors that Lockwork raises on purpose."""


class ConfigError(LockworkError, ValueError):
    """An argument, name, URL or setting is not usable; nothing was sent to the server."""


class BlockingCallError(LockworkError, RuntimeError):
    """A blocking call was made on the thread of a running event loop; use its `a`-prefixed twin there."""


class ServerUnavailable(LockworkError, ConnectionError):
    """The server cannot be reached, or went away and did not come back in time."""


class ServerRefused(LockworkError):
    """The server answered, but refuses us: wrong password, missing rights, out of memory, or a key of another type."""


class ServerUnsuitable(LockworkError):
    """The server works but would lose locks or jobs: too old, a read-only replica, or one that evicts keys."""


class LockTimeout(LockworkError, TimeoutError):
    """The lock was not granted within `wait`; the caller is no longer in the waiting line."""


class LockLost(LockworkError):
    """The lease ended while the holder was still working; what it wrote since then may overlap with the next holder."""


class NotReplicated(LockworkError):
    """Too few replicas had what was written in time; a grant was given back."""


class JobNotReplicated(NotReplicated):
    """Too few replicas had the jobs in time: they are enqueued, and run unless a failover loses them.

    So enqueuing them once more would run them twice. `ids` are those of which it is not known, in order.
    When a full queue refused those after them, `__cause__` is the QueueFull that says so.
    """

    def __init__(self, message: str, ids: tuple[str, ...]) -> None:
        super().__init__(message)
        self.ids: tuple[str, ...] = ids

    def __reduce__(self) -> tuple[type[JobNotReplicated], tuple[str, tuple[str, ...]]]:
        return type(self), (str(self), self.ids)


class NotHeld(LockworkError, RuntimeError):
    """A lock was released by a thread or task that does not hold it; nothing changed."""


class WouldDeadlock(LockworkError, RuntimeError):
    """What was asked for could only be granted after the caller itself has given something up; nothing changed."""


class StaleFence(LockworkError):
    """A store has seen a higher fence: the grant behind this write is over, and nothing was written.

    `fence` is the one that was refused, `seen` the one that the store has.
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
    """What was waited for did not happen within `timeout`; this caller is no longer counted as waiting."""


class RateLimited(LockworkError):
    """A limiter has no room within `wait`; nothing was taken. `retry_after`: seconds until there would be room."""

    def __init__(self, message: str, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after: float = retry_after

    def __reduce__(self) -> tuple[type[RateLimited], tuple[str, float]]:
        return type(self), (str(self), self.retry_after)


class OnceFailed(LockworkError):
    """What runs once per period did not end well, and is not run again in this period; `type` and `text` say how."""

    def __init__(self, message: str, type: str, text: str) -> None:
        super().__init__(message)
        self.type: str = type
        self.text: str = text

    def __reduce__(self) -> tuple[type[OnceFailed], tuple[str, str, str]]:
        return OnceFailed, (str(self), self.type, self.text)


class SoldOut(LockworkError):
    """Fewer units are on sale than asked for; some may come back when reservations end unpaid."""


class NotEnqueued(LockworkError):
    """A database transaction was committed, but enqueueing its jobs failed or its effect is unknown.

    `ids` are theirs.
    """

    def __init__(self, message: str, ids: tuple[str, ...]) -> None:
        super().__init__(message)
        self.ids: tuple[str, ...] = ids

    def __reduce__(self) -> tuple[type[NotEnqueued], tuple[str, tuple[str, ...]]]:
        return type(self), (str(self), self.ids)


class LimitReached(LockworkError):
    """This buyer already holds or bought as many units as the limit allows."""


class ReservationEnded(LockworkError):
    """The reservation is no longer in the state that this call needs (expired, released, or already confirmed)."""


class QueueFull(LockworkError):
    """A queue has no room for what was to be enqueued: `waiting` jobs wait in `queue`, and `limit` may.

    Of a batch, the first `enqueued` jobs are enqueued: a whole number of thousands, of unique jobs of five hundreds. Of
    a batch that was split among partitions `enqueued` are, and those that are not are at `missing`, counted from 0.
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


class PayloadTooLarge(LockworkError, ValueError):
    """Arguments or a result are larger, once encoded, than the cap; nothing was sent."""


class JobFailed(LockworkError):
    """The job ended without a result: it failed for good or was cancelled.

    `type`, `text` and `traceback` are those of the error that its task raised, as text.
    """

    def __init__(self, message: str, type: str = "", text: str = "", traceback: str = "") -> None:
        super().__init__(message)
        self.type: str = type
        self.text: str = text
        self.traceback: str = traceback

    def __reduce__(self) -> tuple[type[JobFailed], tuple[str, str, str, str]]:
        return type(self), (str(self), self.type, self.text, self.traceback)


class JobCancelled(JobFailed):
    """The job was cancelled; inside of a `def` job, the job is being cancelled."""

    def __init__(
        self, message: str = "the job is being cancelled", type: str = "", text: str = "", traceback: str = ""
    ) -> None:
        super().__init__(message, type, text, traceback)


class WorkerDied(LockworkError):
    """The process that ran the job died, or was stopped, and the job does not start again: it is in the dead set."""


class JobTimeout(TimeoutError):
    """The attempt took longer than its task's timeout."""

    def __init__(self, message: str = "it took longer than its task's timeout") -> None:
        super().__init__(message)


class JobExpired(JobFailed):
    """The job had not begun when it had to, and does not run."""


class DeliveryOver(LockworkError):
    """This delivery of the job is over: its lease ended, or it was settled; nothing was written."""


class ResultUnavailable(LockworkError, LookupError):
    """No result of this job is kept: it expired, was never kept, or the job is unknown; or it is of another type."""


class ResultTimeout(LockworkError, TimeoutError):
    """The job had not ended when the time to wait for its result was over; it may still run."""
