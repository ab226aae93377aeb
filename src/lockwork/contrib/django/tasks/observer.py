"""Follows the jobs of a task in a worker: keeps each attempt, and sends `task_started` and `task_finished`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import ReferenceType

from asgiref.sync import sync_to_async
from django.dispatch import Signal

from lockwork.app.lockwork import Lockwork
from lockwork.contrib.django.tasks import kept as facts_kept
from lockwork.contrib.django.tasks.framework import (
    SIGNALS,
    AnyResult,
    TaskError,
    TaskResultStatus,
    normalize_json,
    task_finished,
    task_started,
)
from lockwork.contrib.django.tasks.kept import Facts, Kept, KeptAttempt
from lockwork.contrib.django.tasks.results import cancelled, error_of, final, moment, of_attempts, task_result
from lockwork.errors import JobCancelled, LockworkError, ServerUnavailable
from lockwork.failures import exc_info
from lockwork.hooks import Again
from lockwork.ids import enqueued_at
from lockwork.jobs.current import JobContext, meant
from lockwork.logs import Log
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import record_header, records
from lockwork.runtime.trying import backoff
from lockwork.tasks.observer import Ending
from lockwork.worker.execution.batching import WrongResults

if TYPE_CHECKING:
    from lockwork.contrib.django.tasks.registered import Registered

log: Log = Log("lockwork.jobs")

_SOON_MS = 1000

running: ContextVar[AnyResult | None] = ContextVar("lockwork_django_task", default=None)
"""The result of the task that runs here."""


class UnusableResult(WrongResults):
    """The task ran, and JSON cannot hold its return value; it is not run again."""


@dataclass(slots=True)
class _Attempt:
    """An attempt that runs in this process."""

    kept: Kept
    now: KeptAttempt
    began: float
    result_ms: int
    result: AnyResult

    def ended(self) -> int:
        """Return the time now, by the server's clock at the start."""
        return self.now.started + int((time.perf_counter() - self.began) * 1_000_000)


class JobObserver:
    """Observes the jobs of one task."""

    def __init__(self, app: Lockwork, registered: Registered, result_ms: int) -> None:
        self._app = app
        self._registered = registered
        self._result_ms = result_ms
        self._queues: dict[str, QueueKeys] = {}

    async def run(self, job: JobContext, call: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """Call the function; keep the attempt before the call, and its end before the outcome is settled."""
        attempt = await self._begin(job)
        token = running.set(attempt.result)
        try:
            await self._send(task_started, attempt.result)
            try:
                returned = await call()
            except BaseException as error:
                if _is_failure(error):
                    await self._failed(job, attempt, error)
                raise
            return await self._returned(job, attempt, returned)
        finally:
            running.reset(token)

    async def attempted(self, job: JobContext, ending: Ending, error: BaseException | None) -> None:
        """Keep the end of an attempt; `ended` sends it if the job does not run again."""
        attempt = _attempt_of(job)
        if attempt is None:
            return  # the runner's process keeps it
        if error is not None and ending in ("dead", "retry") and not attempt.now.error:
            await self._failed(job, attempt, error)
        if ending in ("retry", "snooze"):
            del job.observed
            return
        if ending != "success":
            at = attempt.now.ended or attempt.ended()
            attempt.kept = replace(attempt.kept, ending=ending, ended=at)
            if ending == "cancel":
                attempt.result.errors.append(cancelled())
            await self._write(job, attempt)
        _finish(attempt)

    async def ended(self, job: JobContext, error: BaseException | None) -> None:
        """Send `task_finished`: the end of a job has one receiver."""
        attempt = _attempt_of(job)
        if attempt is None:
            await self._ended_elsewhere(job)
            return
        if attempt.kept.ending == "cancel":
            error = JobCancelled("the job was cancelled")
        await self._send(task_finished, attempt.result, error)

    async def _begin(self, job: JobContext) -> _Attempt:
        record, payloads = job.leased.record, self._app.runtime.payloads
        if payloads is not None:
            record = payloads.open_call(job.queue, job.id, record)
        call = records.decoded(record_header.body(record))
        facts = Facts.of_call(call) or Facts(self._registered.base.backend)
        result_ms = record_header.tracked_ms(job.leased.record) or self._result_ms
        before: list[KeptAttempt] = []
        try:
            if job.attempt > 1:
                known = await self._app.runtime.arun(facts_kept.read(self._keys(job), job.id, payloads))
                before = known.before(job.attempt) if known is not None else []
            now = KeptAttempt(job.attempt, job.worker, job.fence)
            kept = Kept(job.task, facts, enqueued_at(job.id) or 0, attempts=[*before, now])
            await self._app.runtime.arun(
                facts_kept.write(self._keys(job), job.id, kept, job.fence, result_ms, payloads)
            )
        except LockworkError as error:
            # the function has not begun: the job returns to the queue, or another worker has it already
            log.warning("job %s waits: its attempt could not be noted: %s", job.id, error)
            raise Again(_SOON_MS, counted=False) from error
        kept = replace(kept, args=call[1], kwargs=call[2] if len(call) > 2 else {})
        task = self._registered.task_of(facts, job.queue)
        result = of_attempts(task, job.id, kept, _all(before, now), TaskResultStatus.RUNNING, None)
        result.errors.extend(_error_of(each) for each in _all(before, now)[:-1])
        job.observed = attempt = _Attempt(kept, now, time.perf_counter(), result_ms, result)
        return attempt

    async def _returned(self, job: JobContext, attempt: _Attempt, returned: Any) -> Any:
        try:
            value = normalize_json(returned)
        except (TypeError, ValueError) as error:
            await self._failed(job, attempt, error)
            raise UnusableResult(f"the task {job.task!r} returned what JSON cannot hold: {error}") from error
        attempt.now = replace(attempt.now, ended=attempt.ended())
        attempt.kept = replace(attempt.kept, ending="success", ended=attempt.now.ended)
        object.__setattr__(attempt.result, "_return_value", value)
        await self._write(job, attempt)
        return value

    async def _failed(self, job: JobContext, attempt: _Attempt, error: BaseException) -> None:
        attempt.now = attempt.now.failed(error, attempt.ended())
        attempt.result.errors.append(_error_of(attempt.now))
        await self._write(job, attempt)

    async def _write(self, job: JobContext, attempt: _Attempt) -> None:
        """Write the facts as long as the server is away, as the outcome is: the job's work is done."""
        attempts = [*attempt.kept.before(attempt.now.number), attempt.now]
        attempt.kept = kept = replace(attempt.kept, attempts=attempts)
        failures, payloads = 0, self._app.runtime.payloads
        while True:
            try:
                await self._app.runtime.arun(
                    facts_kept.write(self._keys(job), job.id, kept, job.fence, attempt.result_ms, payloads)
                )
            except ServerUnavailable as error:
                failures += 1
                log.warning("job %s: what is kept about it waits for the server: %s", job.id, error)
                await asyncio.sleep(backoff(failures))
                continue
            except LockworkError as error:
                log.warning("job %s: the facts about its attempt could not be kept: %s", job.id, error)
            return

    async def _ended_elsewhere(self, job: JobContext) -> None:
        """Keep and send the end of a job that ended while it waited, or whose process died or is a runner."""
        found = await self._registered.afind(job.id)
        if found is None or not found.is_finished:
            return  # it was deleted, or an operator lets it run again
        kept, payloads = final(found), self._app.runtime.payloads
        result_ms = found.result_ms or self._result_ms
        fence = max((each.started for each in kept.attempts), default=1)
        try:
            writing = facts_kept.write(self._keys(job), job.id, kept, max(fence, 1), result_ms, payloads)
            await self._app.runtime.arun(writing)
        except LockworkError as error:
            log.warning("job %s: the facts about its end could not be kept: %s", job.id, error)
        result = task_result(found, self._registered.task_of(kept.facts, found.queue), job.id)
        await self._send(task_finished, result, error_of(found))

    async def _send(self, signal: Signal, result: AnyResult, error: BaseException | None = None) -> None:
        sending = partial(_send, signal, self._registered.sender, result, error)
        if _only_logs(signal):
            sending()
        else:
            await sync_to_async(sending)()

    def _keys(self, job: JobContext) -> QueueKeys:
        if job.queue not in self._queues:
            self._queues[job.queue] = QueueKeys(self._app.config.prefix, job.queue)
        return self._queues[job.queue]


def _attempt_of(job: JobContext) -> _Attempt | None:
    """Return the attempt of this delivery, if it ran in this process."""
    attempt = getattr(job, "observed", None)
    return attempt if isinstance(attempt, _Attempt) else None


def _is_failure(error: BaseException) -> bool:
    """Return True for an error of the attempt; the end of a cancelled job or process is reported by `ended`."""
    error = meant(error)
    return not (
        isinstance(error, asyncio.CancelledError | JobCancelled) or (isinstance(error, Again) and not error.counted)
    )


def _all(before: list[KeptAttempt], now: KeptAttempt) -> list[KeptAttempt]:
    """Return all attempts up to this one; an attempt that no worker could note has no worker."""
    known = {each.number: each for each in before}
    return [*(known.get(number) or KeptAttempt(number, "", 0) for number in range(1, now.number)), now]


def _error_of(attempt: KeptAttempt) -> TaskError:
    if attempt.error:
        return TaskError(exception_class_path=attempt.error, traceback=attempt.traceback)
    return TaskError(
        exception_class_path="lockwork.errors.WorkerDied", traceback="lockwork.errors.WorkerDied: its worker died\n"
    )


def _finish(attempt: _Attempt) -> None:
    status = TaskResultStatus.SUCCESSFUL if attempt.kept.ending == "success" else TaskResultStatus.FAILED
    object.__setattr__(attempt.result, "status", status)
    object.__setattr__(attempt.result, "finished_at", moment(attempt.kept.ended))


def _send(signal: Signal, sender: type, result: AnyResult, error: BaseException | None) -> None:
    """Send a signal; for a failure within its `except`, because receivers log the error."""
    if error is None:
        signal.send_robust(sender=sender, task_result=result)
        return
    trace = error.__traceback__
    try:
        raise error.with_traceback(exc_info(error)[2])
    except BaseException:  # noqa: BLE001 - it is the job's error
        signal.send_robust(sender=sender, task_result=result)
    finally:
        error.__traceback__ = trace


def _only_logs(signal: Signal) -> bool:
    """Return True if only Django's own receivers are connected, which do not use the database."""
    for _, receiver, *_ in signal.receivers:
        function = receiver() if isinstance(receiver, ReferenceType) else receiver
        if function is not None and getattr(function, "__module__", None) != SIGNALS:
            return False
    return True
