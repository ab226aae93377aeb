"""The handle of a job: its id, its state, its result, and ways to cancel, retry or reschedule it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from datetime import datetime
from typing import Any, Generic, NamedTuple, NoReturn, TypeVar, cast

from msgspec.structs import replace

from lockwork import codecs
from lockwork.durations import Duration, milliseconds, seconds
from lockwork.errors import (
    ConfigError,
    JobCancelled,
    JobExpired,
    JobFailed,
    LockworkError,
    ResultTimeout,
    ResultUnavailable,
)
from lockwork.failures import Errors, Failure
from lockwork.jobs import options as job_options
from lockwork.jobs.snapshot import JobError, JobSnapshot, State, describe_place, snapshot, state_of
from lockwork.jobs.waits import Wait, warn_if_unserved
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

    __slots__ = ("_from", "arrival", "id")

    def __init__(self, origin: Origin, id: str, arrival: Arrival = "new") -> None:
        self._from = origin
        self.id: str = id
        self.arrival: Arrival = arrival
        """The effect of the call that returned this handle: "new", or, if a unique job had the name, "kept" (no
        effect), "replaced" (that job became this call) or "moved" (it also runs at another time)."""

    @property
    def queue(self) -> str:
        """The queue's name."""
        return self._from.keys.name

    @property
    def new(self) -> bool:
        """True if the call enqueued a job; False if another job had its unique name."""
        return self.arrival == "new"

    def result(self, timeout: Duration | None = None) -> R:
        """Wait for the job and return its result; with `timeout` None, wait without a limit.

        Raises the task's own error if its class is registered (`lw.error_type`), else JobFailed (JobCancelled,
        JobExpired). Raises ResultTimeout, or ResultUnavailable if the result is not kept (any more) or does not match
        the function's annotation.
        """
        with Wait(self):
            outcome, place = self._from.runtime.run(self._outcome(timeout))
        return self._read(outcome, place)

    async def aresult(self, timeout: Duration | None = None) -> R:
        """Async version of `result`."""
        with Wait(self):
            outcome, place = await self._from.runtime.arun(self._outcome(timeout))
        return self._read(outcome, place)

    def state(self) -> State:
        """Read its state: scheduled, blocked (it waits for others of its flow), ready, running, succeeded, dead,
        cancelled, expired, or unknown.
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
                yield codecs.decode(last.encode())
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
                yield codecs.decode(last.encode())
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
        return snapshot(self.id, self.queue, details)

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

    def _outcome(self, timeout: Duration | None) -> Protocol[tuple[JobState, control.JobPlace | None]]:
        limit = None if timeout is None else seconds(timeout, "timeout", zero=True)
        return self._at(lambda keys: self._outcome_in(keys, limit), limit)

    def _outcome_in(self, keys: QueueKeys, limit: float | None) -> Protocol[tuple[JobState, control.JobPlace | None]]:
        """Wait for the outcome; if there is none in time, find out where the job is, for the error to say."""
        runtime = self._from.runtime
        unserved = warn_if_unserved(keys, self.id, f"job {self.id}") if limit is None else None
        outcome = yield from leases.outcome(keys, self.id, runtime.channel, limit, runtime.window_ms, unserved)
        if outcome.state not in leases.UNENDED:
            return outcome, None
        try:
            return outcome, (yield from sessions.within(LOOK_AFTER_TIMEOUT, control.find_place(keys, self.id)))
        except LockworkError:
            return outcome, None

    def _read(self, state: JobState, place: control.JobPlace | None) -> R:
        if state.state == "unknown":
            raise ResultUnavailable(
                f"nothing is known of job {self.id} in {self._searched}: its result has expired, or it never "
                "existed; for another queue, use lw.job(id, queue=...)"
            )
        if state.blob[:1] == b"c":
            reason = f", because job {state.blob[2:].decode()} failed" if state.blob[1:2] == b">" else ""
            raise JobCancelled(f"job {self.id} in queue {self.queue!r} was cancelled{reason}")
        if state.blob == b"x" or state.state == "overdue":
            raise JobExpired(f"job {self.id} in queue {self.queue!r} expired: it did not start in time")
        if state.state == "dead" or state.blob[:1] == b"f":
            error = state.blob if state.state == "dead" else state.blob[1:]
            self._raise(Failure.read(error))
        if state.state != "ended":
            raise ResultTimeout(f"job {self.id} in queue {self.queue!r} has not ended yet{describe_place(place)}")
        if len(state.blob) == 1:
            raise ResultUnavailable(
                f"job {self.id} in queue {self.queue!r} succeeded, but has no result: its task keeps none, or "
                "result_ttl has passed"
            )
        value: R = codecs.result(state.blob[1:], self._from.returns, f"job {self.id} in queue {self.queue!r}")
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

    def __repr__(self) -> str:
        return f"<Job {self.id} queue={self.queue!r}>"
