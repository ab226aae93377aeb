"""The current job inside a worker: its identity, and the methods that it can call while it runs."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from typing import Any, Literal, NoReturn, TypeVar
from typing import Protocol as Shape

from lockwork import codecs
from lockwork.durations import Duration, milliseconds
from lockwork.errors import ConfigError, DeliveryOver, JobCancelled, PayloadTooLarge
from lockwork.hooks import Again
from lockwork.jobs import options
from lockwork.lazy import asyncio
from lockwork.owners import Owner
from lockwork.payloads.payloads import opened
from lockwork.protocol.effects import Protocol
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.locks.overview import job_text
from lockwork.protocol.queue import job_control as control
from lockwork.protocol.queue.leases import Leased
from lockwork.protocol.scripts import codes
from lockwork.runtime.runtime import Runtime

T = TypeVar("T")
_STEP = 200


RunnerState = Literal["", "runs", "waits"]


class QueueContext:
    """State that all jobs of one queue in one worker process share."""

    __slots__ = ("cap", "keys", "on_overrun", "on_wait", "queue", "runtime", "session")

    def __init__(
        self,
        queue: str,
        keys: QueueKeys,
        runtime: Runtime,
        session: str,
        cap: int,
        on_overrun: Callable[[str], None] = lambda _task: None,
        on_wait: Callable[[], object] = lambda: None,
    ) -> None:
        self.queue: str = queue
        self.keys: QueueKeys = keys
        self.runtime: Runtime = runtime
        self.session: str = session
        self.cap: int = cap
        """Maximum bytes of a job's checkpoints and progress."""
        self.on_overrun: Callable[[str], None] = on_overrun
        """Called with the task of each job that ignores its time-out, once."""
        self.on_wait: Callable[[], object] = on_wait
        """Called when a job starts or stops waiting for a result, on any thread."""


class ResultWait(Shape):
    """A job or flow whose result a job awaits."""

    @property
    def id(self) -> str:
        """The id of the job or flow."""
        ...

    @property
    def queue(self) -> str:
        """The queue of the job or flow."""
        ...

    @property
    def since(self) -> float:
        """Start of the wait, by the clock of this process."""
        ...


class Interruptible(Shape):
    """A thread or runner process that runs a job, instead of a coroutine of this process."""

    def interrupt(self, kind: type[BaseException], /) -> None:
        """Raise `kind` in it, as soon as that is possible."""


def meant(error: BaseException) -> BaseException:
    """Return the first Again of an exception group that contains nothing else; any other error unchanged.

    So a job may also call `retry` and `snooze` in a task group.
    """
    if not isinstance(error, BaseExceptionGroup) or error.split(Again)[1] is not None:
        return error
    first: BaseException = error
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    return first


def is_failure(error: BaseException) -> bool:
    """Return True if an attempt that ended with this error has failed: a snoozed or cancelled job has not."""
    error = meant(error)
    if isinstance(error, BaseExceptionGroup):
        return any(map(is_failure, error.exceptions))
    if isinstance(error, Again):
        return error.counted
    return isinstance(error, Exception) and not isinstance(error, JobCancelled)


class JobContext:
    """The current delivery of a job; `attempt` starts at 1, and `fence` is higher than in every earlier delivery."""

    __slots__ = (
        "_in_requests",
        "_leased",
        "_note",
        "_queue_context",
        "cancelled",
        "observed",
        "over",
        "overran",
        "runner",
        "tags",
        "task",
        "thread",
        "waits",
    )

    observed: object
    """For the task's observer, which sets it."""

    def __init__(self, leased: Leased, task: str, queue_context: QueueContext, tags: tuple[str, ...] = ()) -> None:
        self._leased = leased
        self._queue_context = queue_context
        self._note: control.Note | None = None
        self._in_requests = ""
        self.task: str = task
        self.tags: tuple[str, ...] = tags
        self.thread: Interruptible | None = None
        self.cancelled: bool = False
        """True if the job is being cancelled; for threads that cannot be interrupted."""
        self.over: bool = False
        """True if only its hooks still run, so that there is nothing to cancel."""
        self.waits: list[ResultWait] = []
        """The current waits of its code for results."""
        self.runner: RunnerState = ""
        """For the worker: "runs" or "waits" for the runner of an `executor="process"` task; "" for other tasks."""
        self.overran: bool = False
        """True if it returned after its time-out, or ran on for 10 s."""

    @property
    def id(self) -> str:
        """The job's id."""
        return self._leased.id

    @property
    def queue(self) -> str:
        """The name of its queue."""
        return self._queue_context.queue

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1."""
        return self._leased.attempt

    @property
    def fence(self) -> int:
        """For stores that refuse a write by an earlier delivery."""
        return self._leased.fence

    @property
    def worker(self) -> str:
        """The session of the worker process that runs it, `host/pid/...`."""
        return self._queue_context.session

    @property
    def headers(self) -> dict[str, str]:
        """Headers that enqueue middlewares added, such as the job's trace; the same in each attempt."""
        return options.headers(self._leased.record)

    @property
    def in_requests(self) -> str:
        """The job's id and task as requests for locks contain them."""
        if not self._in_requests:
            self._in_requests = job_text(self.id, self.task)
        return self._in_requests

    def in_thread(self, run: Interruptible) -> None:
        """Note that a thread, or a runner, now runs the job's function."""
        self.thread = run

    @property
    def leased(self) -> Leased:
        """The lease, for the worker."""
        return self._leased

    def note_overrun(self) -> None:
        """Note that it ignored its time-out; for the worker."""
        if not self.overran:
            self.overran = True
            self._queue_context.on_overrun(self.task)

    def begin_wait(self, wait: ResultWait) -> None:
        """Note that its code waits for a result; on any thread."""
        self.waits.append(wait)
        self._queue_context.on_wait()

    def end_wait(self, wait: ResultWait) -> None:
        """Note that this wait is over; on any thread."""
        self.waits.remove(wait)
        self._queue_context.on_wait()

    def progress(self, value: object) -> None:
        """Store the job's progress, as JSON, and notify its watchers at once.

        Raises DeliveryOver if this delivery has ended, ConfigError, PayloadTooLarge.
        """
        self._written(self._run(self._write("", value)))

    async def aprogress(self, value: object) -> None:
        """Async version of `progress`."""
        self._written(await self._arun(self._write("", value)))

    def checkpoint(self, name: str, value: object = None) -> None:
        """Store that a step is finished, with a value, as JSON: the next attempt finds it in `checkpoints`.

        Raises DeliveryOver if this delivery has ended, ConfigError, PayloadTooLarge.
        """
        self._written(self._run(self._write(checkpoint_name(name), value)))
        self._remember(name, value)

    async def acheckpoint(self, name: str, value: object = None) -> None:
        """Async version of `checkpoint`."""
        self._written(await self._arun(self._write(checkpoint_name(name), value)))
        self._remember(name, value)

    @property
    def checkpoints(self) -> dict[str, Any]:
        """The steps that this and earlier attempts finished, with their values.

        Raises PayloadRejected if one is not encrypted or signed as the app requires.
        """
        return {name: codecs.decode(self._opened(name, value)) for name, value in self._notes().steps.items()}

    def retry(self, delay: Duration | None = None) -> NoReturn:
        """End this attempt as failed, and run the job again after `delay` (default: the task's back-off)."""
        raise Again(None if delay is None else milliseconds(delay, "delay", zero=True), counted=True)

    def snooze(self, delay: Duration) -> NoReturn:
        """End this delivery, and run the job again after `delay`; it is not counted as an attempt."""
        raise Again(milliseconds(delay, "delay", zero=True), counted=False)

    def _run(self, protocol: Protocol[T]) -> T:
        return self._queue_context.runtime.run(protocol)

    def _arun(self, protocol: Protocol[T]) -> Coroutine[Any, Any, T]:
        return self._queue_context.runtime.arun(protocol)

    def _notes(self) -> control.Note:
        if self._note is None:
            self._note = control.Note.read(self._leased.note)
        return self._note

    def _opened(self, step: str, stored: str) -> bytes:
        context = self._queue_context
        return opened(context.runtime.payloads, "checkpoint", context.queue, self.id, stored.encode(), step)

    def _remember(self, step: str, value: object) -> None:
        """Note a finished step for `checkpoints`, in its stored form."""
        encoded = codecs.encode(value, "a checkpoint", self._queue_context.cap)
        self._notes().steps[step] = self._sealed(step, encoded).decode()

    def _sealed(self, step: str, encoded: bytes) -> bytes:
        context = self._queue_context
        payloads = context.runtime.payloads
        if payloads is None:
            return encoded
        return payloads.seal_value("checkpoint" if step else "progress", context.queue, self.id, encoded, step)

    def _write(self, step: str, value: object) -> Protocol[int]:
        what = f"checkpoint {step!r}" if step else "the progress"
        context = self._queue_context
        encoded = self._sealed(step, codecs.encode(value, f"{what} of job {self.id}", context.cap))
        return control.note(context.keys, context.session, self._leased, step, encoded, context.cap)

    def _written(self, answer: int) -> None:
        results = codes("queue/note")
        if answer == results.lease_over:
            raise DeliveryOver(
                f"job {self.id}: this delivery has ended, so nothing was written; the job runs elsewhere"
            )
        if answer == results.too_large:
            raise PayloadTooLarge(
                f"job {self.id}: its checkpoints and progress would exceed {self._queue_context.cap} bytes in total"
            )

    def __repr__(self) -> str:
        return f"<JobContext {self.id} task={self.task!r} attempt={self.attempt}>"


class SlotContext:
    """The current job of one slot of a worker; asyncio tasks and threads that the job starts see it, too."""

    __slots__ = ("batch", "job", "owners", "task")

    def __init__(self) -> None:
        self.job: JobContext | None = None
        self.owners: list[Owner] = []
        """Owners of thread calls that have returned: their grants end with the job."""
        self.batch: list[JobContext] = []
        """The jobs of one batch call, instead of a single job."""
        self.task: asyncio.Task[None] | None = None
        """The slot's own asyncio task."""

    def stop(self) -> None:
        """Cancel the current job, once: a coroutine at its `await`, a thread between two instructions."""
        job = self.job
        if job is None or job.over:
            return
        again, job.cancelled = job.cancelled, True
        if job.thread is not None:
            job.thread.interrupt(JobCancelled)
        elif self.task is not None and not again:
            self.task.cancel()  # only once, so that it can clean up as long as it takes


slot: ContextVar[SlotContext | None] = ContextVar("lockwork_job", default=None)


def current_job() -> JobContext:
    """Return the job that runs this code; raises RuntimeError outside of a worker's job."""
    mine = slot.get()
    if mine is not None and mine.batch:
        raise RuntimeError("the jobs of a batch are running here: a batch task must call current_jobs()")
    if mine is None or mine.job is None:
        raise RuntimeError(
            "no job is running here: current_job() only works inside a task that a worker runs, or that a test calls "
            "with task.run() or in lockwork.testing.fake_job()"
        )
    return mine.job


def current_jobs() -> list[JobContext]:
    """Return the jobs of this call of a batch task, in the order of its items; in other tasks the only job.

    Raises RuntimeError outside of a worker's job.
    """
    mine = slot.get()
    return list(mine.batch) if mine is not None and mine.batch else [current_job()]


def jobs_here() -> list[JobContext]:
    """Return the jobs whose function runs in the current slot; none while only their hooks run."""
    mine = slot.get()
    if mine is None:
        return []
    if mine.batch:
        return list(mine.batch)
    return [] if mine.job is None or mine.job.over else [mine.job]


def job_in_requests() -> str:
    """Return the job that runs here, or the first job of a batch, as requests contain it; "" outside of a job."""
    mine = slot.get()
    if mine is None:
        return ""
    job = mine.batch[0] if mine.batch else mine.job
    return "" if job is None else job.in_requests


def checkpoint_name(name: object) -> str:
    """Return the name of a checkpoint if it is usable; raises ConfigError."""
    if not isinstance(name, str) or not 1 <= len(name) <= _STEP:
        raise ConfigError(f"a checkpoint's name must be text of 1 to {_STEP} characters, not {name!r:.60}")
    return name
