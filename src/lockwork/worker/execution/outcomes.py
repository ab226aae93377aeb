"""Turns the end of a job's call into an outcome for the server, and an event for hooks."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from lockwork import backoff, codecs
from lockwork.durations import in_milliseconds
from lockwork.errors import (
    ConfigError,
    PayloadRejected,
    PayloadTooLarge,
    RetryUntilPassed,
    UnknownTask,
    WorkerDied,
)
from lockwork.failures import Errors, exc_info, line, without_text
from lockwork.hooks import Again
from lockwork.jobs.current import JobContext, QueueContext
from lockwork.logs import Log
from lockwork.protocol.queue import record_header
from lockwork.protocol.queue.leases import Leased, Outcome
from lockwork.runtime.clock import now
from lockwork.tasks.options import TaskOptions
from lockwork.worker.execution.batching import WrongResults
from lockwork.worker.execution.hook_runner import CANCEL, SUCCESS, AttemptEnd
from lockwork.worker.execution.job_log import JobLog
from lockwork.worker.execution.threads import killed_after

log: Log = Log("lockwork.jobs")

_NOTHING = b"null"
_TOO_LATE = "the next attempt would begin after its retry_until"
_READABLE = (PayloadRejected, RetryUntilPassed, UnknownTask, WorkerDied)
"""Errors of Lockwork that contain no value of a job: operators must be able to read them."""
MayChange = Callable[[bytes], bool] | None


class Settles(Protocol):
    """Takes outcomes to settle."""

    def add(self, outcome: Outcome) -> None:
        """Settle an outcome soon."""

    async def confirmed(self, id: str) -> bool:
        """Wait until the outcome of a tracked task's job is on the server; False if another process settles it."""
        ...


class Settled(NamedTuple):
    """The return value of a job that ran in a runner, which has already decided its outcome."""

    outcome: Outcome


class Outcomes:
    """Settles the jobs of one queue, and returns how each attempt ended, for hooks."""

    def __init__(
        self, settler: Settles, errors: Errors, max_result: int, queue_context: QueueContext, job_log: JobLog
    ) -> None:
        self._settler = settler
        self._queue = queue_context.queue
        self._job_log = job_log
        self._errors = errors
        self._max_result = max_result
        self._payloads = queue_context.runtime.payloads
        self._hides = self._payloads is not None and self._payloads.hides(self._queue)

    def given_back(self, job: Leased, *, begun: bool) -> None:
        """Return a job to its queue; the delivery does not count as an attempt."""
        self._settler.add(Outcome(job.id, job.token, "g" if begun else "n"))

    def cancelled(self, job: Leased, task: str) -> None:
        """Settle an unfinished job that has a cancellation request."""
        self._settler.add(Outcome(job.id, job.token, "c", task=task))
        log.info("job %s was cancelled", job.id, extra={"job": job.id})

    def put_off(self, job: Leased, delay_ms: int) -> None:
        """Snooze a job, uncounted."""
        self._settler.add(Outcome(job.id, job.token, "z", b"", delay_ms))

    def raised(self, job: Leased, error: BaseException, context: JobContext, options: TaskOptions) -> AttemptEnd:
        """Settle a job whose call raised."""
        if context.cancelled:
            self.cancelled(job, context.task)
            return CANCEL
        if isinstance(error, WrongResults):
            # no retry: its work is done
            end = self.dead(job, error, context.task)
            message = "%s ran, but has no result, and goes to the dead set: %s"
            log.error(message, job_label(job, context.task), self.line(error), **self.facts(job, context.task, error))
            return end
        if not isinstance(error, Again):
            return self.failed(job, error, options, context.task)
        if error.counted:
            return self.failed(job, error, options, context.task, error.delay_ms)
        delay_ms = error.delay_ms or 0
        self.put_off(job, delay_ms)
        return AttemptEnd("snooze", None, delay_ms / 1000)

    def returned(
        self,
        job: Leased,
        task: str,
        value: object,
        options: TaskOptions,
        seconds: float,
        may_change: MayChange,
        *,
        overran: bool,
    ) -> AttemptEnd | None:
        """Settle a job whose call returned after `seconds`; return None if a runner has already called the hooks.

        may_change: see `Signature.result_may_change`. overran: the job ignored its time-out.
        """
        if type(value) is Settled:
            self._settler.add(value.outcome)
            return None
        if not options.keep_result:
            encoded = b""
        elif value is None and self._payloads is None:
            encoded = _NOTHING
        else:
            try:
                what = f"the result of task {task!r}"
                encoded = codecs.encode(value, what, self._max_result)
                if may_change is not None and may_change(encoded):
                    encoded = codecs.encode(codecs.exact(value, what), what, self._max_result)
                if self._payloads is not None:
                    encoded = self._payloads.seal_value("result", self._queue, job.id, encoded)
            except (ConfigError, PayloadTooLarge) as error:
                # no retry: its work is done
                end = self.dead(job, error, task)
                message = "%s ran, but goes to the dead set without its result: %s"
                log.error(message, job_label(job, task), self.line(error), **self.facts(job, task, error))
                return end
        self._settler.add(Outcome(job.id, job.token, "o" if overran else "s", encoded, options.result_ms, task))
        self._job_log.succeeded(job, task, self._queue, seconds)
        return SUCCESS

    def failed(
        self, job: Leased, error: BaseException, options: TaskOptions, task: str = "", delay_ms: int | None = None
    ) -> AttemptEnd:
        """Settle a failed job: retry it after `delay_ms` or its task's back-off, or bury it."""
        if isinstance(error, WorkerDied):
            return self._crashed(job, error, options, task)
        budget = record_header.budget(job.record)
        remaining = budget.left_after_failure(job.attempt, job.deaths) and options.again(error)
        if remaining and delay_ms is None:
            delay_ms = self._pause(job, job.attempt - job.deaths, options)
        if remaining and _too_late(delay_ms or 0, options):
            remaining = False
            error.add_note(_TOO_LATE)
        if remaining:
            assert delay_ms is not None
            self._settler.add(Outcome(job.id, job.token, "r", self._stored(job, error), delay_ms, task))
            end, level, how = AttemptEnd("retry", error, delay_ms / 1000), logging.WARNING, "failed"
        else:
            late = _TOO_LATE in getattr(error, "__notes__", ())
            how = f"failed for good ({_TOO_LATE})" if late else "failed for good"
            end, level = self.dead(job, error, task), logging.ERROR
        most = budget.attempts + job.deaths  # a crash counts as an attempt, but not as a failure
        most = min(most, budget.deliveries or most)
        message = "%s %s, attempt %d of %d: %s"
        text = self.line(error)
        log.log(level, message, job_label(job, task), how, job.attempt, most, text, **self.facts(job, task, error))
        return end

    def dead(self, job: Leased, error: BaseException, task: str = "") -> AttemptEnd:
        """Bury a job."""
        self._settler.add(Outcome(job.id, job.token, "d", self._stored(job, error), task=task))
        return AttemptEnd("dead", error)

    def too_long(self, job: Leased, task: str, options: TaskOptions, limit: float) -> Outcome:
        """Return the outcome of a job whose hard time-out required killing this process."""
        error = killed_after(limit)
        stored = self._stored(job, error)
        remaining = record_header.budget(job.record).left_after_failure(job.attempt, job.deaths)
        if not remaining or not options.again(error):
            return Outcome(job.id, job.token, "d", stored, task=task)
        pause = self._pause(job, job.attempt - job.deaths, options)
        if _too_late(pause, options, limit):
            error.add_note(_TOO_LATE)
            return Outcome(job.id, job.token, "d", self._stored(job, error), task=task)
        return Outcome(job.id, job.token, "r", stored, pause, task)

    def _crashed(self, job: Leased, error: WorkerDied, options: TaskOptions, task: str) -> AttemptEnd:
        """Settle a job whose process died during its run: `retries` covers only failures of its code."""
        stored, message = self._stored(job, error), f"{job_label(job, task)} lost its process, attempt {job.attempt}"
        if record_header.budget(job.record).left_after_crash(job.attempt, job.crashes):
            delay_ms = self._pause(job, job.crashes + 1, options)
            if _too_late(delay_ms, options):
                error.add_note(_TOO_LATE)
                log.error("%s, and goes to the dead set: %s", message, _TOO_LATE, **self.facts(job, task, error))
                return self._crashed_for_good(job, error, task)
            self._settler.add(Outcome(job.id, job.token, "k", stored, delay_ms, task))
            log.warning("%s, and runs again: %s", message, self.line(error), **self.facts(job, task, error))
            return AttemptEnd("retry", error, delay_ms / 1000)
        log.error("%s, and goes to the dead set: %s", message, self.line(error), **self.facts(job, task, error))
        return self._crashed_for_good(job, error, task)

    def _crashed_for_good(self, job: Leased, error: WorkerDied, task: str) -> AttemptEnd:
        self._settler.add(Outcome(job.id, job.token, "K", self._stored(job, error), task=task))
        return AttemptEnd("dead", error)

    def facts(self, job: Leased, task: str, error: BaseException) -> dict[str, Any]:
        """Return the log fields of a failed job: the stack and the job's fields."""
        fields = {"job": job.id, "task": task, "queue": self._queue, "attempt": job.attempt}
        return {"exc_info": exc_info(self._logged(error)), "extra": fields}

    def line(self, error: BaseException) -> str:
        """Return an error in one line for the log; without its text if payloads of the queue are encrypted."""
        return line(self._logged(error))

    def _logged(self, error: BaseException) -> BaseException:
        return without_text(error) if self._hides and not isinstance(error, _READABLE) else error

    def _stored(self, job: Leased, error: BaseException) -> bytes:
        """Encode an error, encrypted or signed if its queue has a codec."""
        stored = self._errors.stored(error)
        if self._payloads is None or isinstance(error, _READABLE):
            return stored
        return self._payloads.seal_error(self._queue, job.id, stored)

    def _pause(self, job: Leased, number: int, options: TaskOptions) -> int:
        """Return the back-off after failure or crash `number` of this job, in ms."""
        try:
            return in_milliseconds(backoff.pause(number, options.backoff))
        except BaseException as error:
            message = "the backoff function of job %s failed, so the job waits one second: %s"
            log.error(message, job.id, self.line(error), exc_info=exc_info(self._logged(error)), extra={"job": job.id})
            return 1000


def _too_late(delay_ms: int, options: TaskOptions, after: float = 0.0) -> bool:
    """Return True if an attempt that is due `delay_ms` after `after` seconds from now may not begin any more."""
    return options.last_start is not None and now() + after + delay_ms / 1000 > options.last_start


def job_label(job: Leased, task: str) -> str:
    """Format a job for the log; `task` is empty if it is unknown."""
    return f"job {job.id} of task {task!r}" if task else f"job {job.id}"
