"""The handle of a job: its id, its state, its result, and ways to cancel, retry or reschedule it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Generator, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, NoReturn, TypeVar, cast

from msgspec.structs import replace

from lockwork import codecs
from lockwork.durations import Duration, milliseconds, seconds
from lockwork.errors import (
    ConfigError,
    JobCancelled,
    JobExpired,
    JobFailed,
    LockworkError,
    PayloadRejected,
    ResultTimeout,
    ResultUnavailable,
)
from lockwork.failures import Errors, Failure
from lockwork.foreign_words import JOB_METHODS, attribute_error
from lockwork.jobs import options as job_options
from lockwork.jobs.opened import opened_details
from lockwork.jobs.snapshot import JobError, JobSnapshot, State, describe_wait, snapshot, state_of
from lockwork.jobs.waits import Wait, on_embedded, warn_if_unserved
from lockwork.payloads.payloads import opened
from lockwork.protocol.effects import Protocol
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.messages import Hints
from lockwork.protocol.queue import job_control as control
from lockwork.protocol.queue import leases, sessions
from lockwork.protocol.queue.leases import JobState
from lockwork.protocol.queue.unique import Arrival
from lockwork.runtime.runtime import Runtime

R = TypeVar("R")
T = TypeVar("T")

LOOK_AFTER_TIMEOUT = 0.5
"""Seconds to find out where a job is, after its result timed out."""


class Origin(NamedTuple):
    """State that the handles of one task's jobs in one queue share."""

    runtime: Runtime
    keys: QueueKeys
    returns: Any = Any
    """The annotated return type of its function."""
    errors: Errors | None = None


class Job(Generic[R]):
    """An enqueued call of a task; `lw.job(id, queue)` finds it again."""

    __slots__ = ("_ended", "_from", "arrival", "id")

    def __init__(self, origin: Origin, id: str, arrival: Arrival = "new") -> None:
        self._from = origin
        self._ended: JobState | None = None
        """The outcome that `lw.completed` read, until `result` returns it."""
        self.id: str = id
        self.arrival: Arrival = arrival
        """The effect of the call that returned this handle: "new", or, if a job had the unique name or the caller's own
        id, "kept" (no effect), "replaced" (that job became this call) or "moved" (it also runs at another time)."""

    @property
    def queue(self) -> str:
        """The queue's name."""
        return self._from.keys.name

    @property
    def new(self) -> bool:
        """True if the call enqueued a job; False if another job had its unique name or own id."""
        return self.arrival == "new"

    def result(self, timeout: Duration | None = None) -> R:
        """Wait for the job and return its result; with `timeout` None, wait without a limit.

        Raises the task's own error if its class is registered (`lw.error_type`), else JobFailed (JobCancelled,
        JobExpired). Raises ResultTimeout, or ResultUnavailable if the result is not kept (any more) or does not match
        the function's annotation.
        """
        if (ended := self._ended) is not None:
            self._ended = None
            return self._read(ended)
        with Wait(self):
            outcome, story = self._from.runtime.run(self._outcome(timeout))
        return self._read(outcome, story)

    async def aresult(self, timeout: Duration | None = None) -> R:
        """Async version of `result`; `await job` is the same without a timeout."""
        if (ended := self._ended) is not None:
            self._ended = None
            return self._read(ended)
        with Wait(self):
            outcome, story = await self._from.runtime.arun(self._outcome(timeout))
        return self._read(outcome, story)

    def __await__(self) -> Generator[Any, Any, R]:
        return self.aresult().__await__()

    def state(self) -> State:
        """Read its state: scheduled, blocked (it waits for others of its flow), ready, running, succeeded, dead,
        cancelled, expired, skipped (no job of its flow failed whose failure it waits for), or unknown.
        """
        return self._from.runtime.run(self._at(self._state))

    async def astate(self) -> State:
        """Async version of `state`."""
        return await self._from.runtime.arun(self._at(self._state))

    def inspect(self) -> JobSnapshot:
        """Read everything about the job: its call, state, times, worker, attempts, error, progress and result."""
        return self._seen(self._from.runtime.run(self._placed()))

    async def ainspect(self) -> JobSnapshot:
        """Async version of `inspect`."""
        return self._seen(await self._from.runtime.arun(self._placed()))

    def attempts(self) -> int | None:
        """The number of ended attempts, by one call; None if unknown, for instance after a success."""
        return self._seen(self._from.runtime.run(self._inspect())).attempts

    async def aattempts(self) -> int | None:
        """Async version of `attempts`."""
        return self._seen(await self._from.runtime.arun(self._inspect())).attempts

    def progress(self) -> Any:
        """The job's last progress value, by one call; None without one, or if the job ended while it waited."""
        return self._seen(self._from.runtime.run(self._inspect())).progress

    async def aprogress(self) -> Any:
        """Async version of `progress`."""
        return self._seen(await self._from.runtime.arun(self._inspect())).progress

    def error(self) -> JobError | None:
        """`type`, `text` and `traceback` of a dead job's error, by one call.

        While a job waits for its next attempt, the error of the last one, without its traceback. None without an error.
        """
        return self._seen(self._from.runtime.run(self._inspect())).error

    async def aerror(self) -> JobError | None:
        """Async version of `error`."""
        return self._seen(await self._from.runtime.arun(self._inspect())).error

    def watch(self) -> Iterator[Any]:
        """Yield the job's progress each time that it changes, until the job has ended.

        It may skip values that follow each other quickly, but never the last one before a pause or the end.
        """
        last, hints = "", Hints()
        while True:
            details = self._from.runtime.run(self._inspect(self._from.runtime.channel))
            if details.note.progress not in ("", last):
                last = details.note.progress
                yield self._progress(last)
            if details.state not in leases.UNENDED:
                return
            self._from.runtime.run(self._changed(hints))

    async def awatch(self) -> AsyncIterator[Any]:
        """Async version of `watch`: `async for progress in job.awatch()`."""
        last, hints = "", Hints()
        while True:
            details = await self._from.runtime.arun(self._inspect(self._from.runtime.channel))
            if details.note.progress not in ("", last):
                last = details.note.progress
                yield self._progress(last)
            if details.state not in leases.UNENDED:
                return
            await self._from.runtime.arun(self._changed(hints))

    def cancel(self) -> bool:
        """Cancel the job; False if it has already ended, or is unknown.

        A waiting job ends at once. The worker cancels a running job at its next `await` (a `def` between two Python
        instructions); if the job finishes anyway, it has succeeded. Either way it does not run again.
        """
        return self._from.runtime.run(self._cancel()) in ("cancelled", "running")

    async def acancel(self) -> bool:
        """Async version of `cancel`."""
        return await self._from.runtime.arun(self._cancel()) in ("cancelled", "running")

    def retry(self, delay: Duration = 0) -> bool:
        """Run a dead, cancelled or expired job again, with all its attempts; False for any other job.

        A dead job keeps its checkpoints. A unique job acquires its name again; False if another job has it. For a job
        of a flow that was cancelled while it waited for other jobs, False until these have ended.
        """
        return self._from.runtime.run(self._revive(delay)) == "revived"

    async def aretry(self, delay: Duration = 0) -> bool:
        """Async version of `retry`."""
        return await self._from.runtime.arun(self._revive(delay)) == "revived"

    def delete(self) -> bool:
        """Delete a waiting or dead job, or a job's history; False if the job runs, or is unknown.

        A caller that waits for the result of a deleted job gets JobFailed. The result of an ended job is kept for its
        time.
        """
        return self._from.runtime.run(self._delete()) == "deleted"

    async def adelete(self) -> bool:
        """Async version of `delete`."""
        return await self._from.runtime.arun(self._delete()) == "deleted"

    def reschedule(self, *, delay: Duration | None = None, at: datetime | None = None) -> bool:
        """Move a waiting job to another time: `delay` from now, or `at` a datetime with a time zone.

        Returns False if the job does not wait: it runs, has ended, or is unknown.
        """
        return self._from.runtime.run(self._reschedule(delay, at)) == "scheduled"

    async def areschedule(self, *, delay: Duration | None = None, at: datetime | None = None) -> bool:
        """Async version of `reschedule`."""
        return await self._from.runtime.arun(self._reschedule(delay, at)) == "scheduled"

    def _at(self, made: Callable[[QueueKeys], Protocol[T]], patience: float | None = None) -> Protocol[T]:  # noqa: ARG002 - for FoundJob
        """Run a protocol on the job's queue; `patience`: seconds to look for that queue while the server is away."""
        return made(self._from.keys)

    def _inspect(self, channel: str = "") -> Protocol[control.JobDetails]:
        return self._at(lambda keys: control.inspect(keys, self.id, channel, self._from.runtime.window_ms))

    def _changed(self, hints: Hints) -> Protocol[None]:
        return self._at(lambda keys: control.changed(keys, self.id, hints))

    def _placed(self) -> Protocol[control.JobDetails]:
        """Inspect the job; a second call distinguishes ready from running."""
        while True:
            details = yield from self._inspect()
            if details.state != "active":
                return details
            place = yield from self._at(lambda keys: control.find_place(keys, self.id))
            if place.state != "gone":  # else it has ended between the two calls
                return replace(details, state=place.state, session=place.session, token=place.token)

    def _state(self, keys: QueueKeys) -> Protocol[State]:
        while True:
            state = yield from leases.job_state(keys, self.id)
            if state.state == "unknown":  # its result is gone, and its queue's history may still have it
                return self._seen((yield from control.inspect(keys, self.id))).state
            if state.state != "active":
                return state_of(state)
            place = yield from control.find_place(keys, self.id)
            if place.state != "gone":
                return cast("State", place.state)

    def _seen(self, details: control.JobDetails) -> JobSnapshot:
        payloads = self._from.runtime.payloads
        if payloads is None:
            return snapshot(self.id, self.queue, details)
        return snapshot(self.id, self.queue, opened_details(payloads, self.queue, self.id, details), details)

    def _progress(self, stored: str) -> Any:
        return codecs.decode(self._opened("progress", stored.encode()))

    def _opened(self, kind: Literal["progress", "result"], stored: bytes) -> bytes:
        """Return a value as JSON; raises ResultUnavailable if this app cannot read it."""
        try:
            return opened(self._from.runtime.payloads, kind, self.queue, self.id, stored)
        except PayloadRejected as error:
            raise ResultUnavailable(str(error)) from None

    def _cancel(self) -> Protocol[str]:
        runtime = self._from.runtime
        return self._at(lambda keys: control.cancel(keys, self.id, runtime.prefix, runtime.window_ms))

    def _revive(self, delay: Duration) -> Protocol[str]:
        wait = milliseconds(delay, "delay", zero=True)
        return self._at(lambda keys: control.revive(keys, self.id, wait))

    def _delete(self) -> Protocol[str]:
        return self._at(lambda keys: control.delete(keys, self.id, self._from.runtime.window_ms))

    def _reschedule(self, delay: Duration | None, at: datetime | None) -> Protocol[str]:
        times = {name: value for name, value in (("delay", delay), ("at", at)) if value is not None}
        due = job_options.moment(times)
        if due is None:
            raise ConfigError("say when the job should run: reschedule(delay=...) or reschedule(at=...)")
        return self._at(lambda keys: control.reschedule(keys, self.id, due))

    def _outcome(self, timeout: Duration | None) -> Protocol[tuple[JobState, str]]:
        limit = None if timeout is None else seconds(timeout, "timeout", zero=True)
        return self._at(lambda keys: self._outcome_in(keys, limit), limit)

    def _outcome_in(self, keys: QueueKeys, limit: float | None) -> Protocol[tuple[JobState, str]]:
        """Wait for the outcome; if there is none in time, find out why, for the error to say."""
        runtime = self._from.runtime
        unserved = warn_if_unserved(runtime, keys, self.id, f"job {self.id}") if limit is None else None
        outcome = yield from leases.outcome(keys, self.id, runtime.channel, limit, runtime.window_ms, unserved)
        return outcome, (yield from self._story()) if outcome.state in leases.UNENDED else ""

    def _story(self) -> Protocol[str]:
        """Describe why a job has not ended, for `ResultTimeout`; "" if the server is unreachable."""
        try:
            details = yield from sessions.within(LOOK_AFTER_TIMEOUT, control.inspect(self._from.keys, self.id))
            place = yield from sessions.within(LOOK_AFTER_TIMEOUT, control.find_place(self._from.keys, self.id))
        except LockworkError:
            return ""
        if (payloads := self._from.runtime.payloads) is not None:
            details = opened_details(payloads, self.queue, self.id, details)
        return describe_wait(place, details, on_embedded(self._from.runtime))

    def _unended_text(self) -> Protocol[str]:
        """Say that the job has not ended, and why; for errors."""
        return self._unended((yield from self._story()))

    def _unended(self, story: str) -> str:
        return f"job {self.id} in queue {self.queue!r} has not ended yet{story}"

    def _search(self) -> Protocol[None] | None:
        """Return a search for the job's queue, or None if the queue is known."""
        return None

    def _read(self, state: JobState, story: str = "") -> R:
        """Return the result of an outcome, or raise its error."""
        if state.state == "unknown":
            raise ResultUnavailable(
                f"nothing is known of job {self.id} in {self._searched}: its result has expired, or it never "
                "existed; for another queue, use lw.job(id, queue=...)"
            )
        if state.blob[:1] == b"c":
            reason = f", because job {state.blob[2:].decode()} failed" if state.blob[1:2] == b">" else ""
            raise JobCancelled(f"job {self.id} in queue {self.queue!r} was cancelled{reason}")
        if state.blob[:1] == b"n":
            raise JobCancelled(
                f"job {self.id} in queue {self.queue!r} was skipped: it runs only after a failure, and no job whose "
                "failure it waits for has failed"
            )
        if state.blob == b"x" or state.state == "overdue":
            raise JobExpired(f"job {self.id} in queue {self.queue!r} expired: it did not start in time")
        if state.state == "dead" or state.blob[:1] == b"f":
            error = state.blob if state.state == "dead" else state.blob[1:]
            if (payloads := self._from.runtime.payloads) is not None:
                error = payloads.open_error(self.queue, self.id, error)
            self._raise(Failure.read(error))
        if state.state != "ended":
            raise ResultTimeout(self._unended(story))
        if len(state.blob) == 1:
            raise ResultUnavailable(
                f"job {self.id} in queue {self.queue!r} succeeded, but has no result: its task keeps none, or "
                "result_ttl has passed"
            )
        encoded = self._opened("result", state.blob[1:])
        value: R = codecs.result(encoded, self._from.returns, f"job {self.id} in queue {self.queue!r}")
        return value

    def _raise(self, failure: Failure) -> NoReturn:
        message = f"job {self.id} in queue {self.queue!r} failed: {failure}"
        failed = JobFailed(message, failure.type, failure.text, failure.traceback)
        rebuilt = None if self._from.errors is None else self._from.errors.rebuilt(failure)
        if rebuilt is None:
            raise failed
        raise rebuilt from failed

    @property
    def _searched(self) -> str:
        """Return the text that names the searched queues."""
        return f"queue {self.queue!r}"

    if not TYPE_CHECKING:  # type checkers must report these names as unknown

        def __getattr__(self, name: str) -> Any:
            raise attribute_error(type(self).__name__, name, JOB_METHODS)

    def __repr__(self) -> str:
        return f"<Job {self.id} queue={self.queue!r}>"


def origin_of(job: Job[Any]) -> Origin:
    """Return the app and the queue of a job."""
    return job._from  # noqa: SLF001 - for waits that include many jobs


def shown_snapshot(job: Job[Any]) -> JobSnapshot:
    """Read a job for tools, which show encrypted values as encrypted even if the app has the keys."""
    details = job._from.runtime.run(job._placed())  # noqa: SLF001 - as in `origin_of`; it also finds the queue
    return snapshot(job.id, job.queue, details)


async def ashown_snapshot(job: Job[Any]) -> JobSnapshot:
    """Async version of `shown_snapshot`."""
    details = await job._from.runtime.arun(job._placed())  # noqa: SLF001
    return snapshot(job.id, job.queue, details)


def search_for(job: Job[Any]) -> Protocol[None] | None:
    """Return a search for a job's queue, or None if the queue is known."""
    return job._search()  # noqa: SLF001


def unended_text(job: Job[Any]) -> Protocol[str]:
    """Say that a job has not ended, and why."""
    return job._unended_text()  # noqa: SLF001


def read_outcome(job: Job[R], outcome: JobState) -> R:
    """Return the result of an outcome, or raise its error."""
    return job._read(outcome)  # noqa: SLF001


def remember_outcome(job: Job[Any], outcome: JobState) -> None:
    """Store the outcome for the next `result` of a job."""
    job._ended = outcome  # noqa: SLF001
