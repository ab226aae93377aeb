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
from lockwork.contrib.django.tasks.results import cancelled, moment, of_attempts, task_result
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
_SETTLED = 8.0
"""Seconds to wait for the outcome of a job that ended in another process."""

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
        self._attempts: dict[str, _Attempt] = {}
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

    async def ended(self, job: JobContext, ending: Ending, error: BaseException | None) -> None:
        """Send `task_finished` when the job does not run again."""
        attempt = self._attempts.pop(job.id, None)
        if ending == "snooze":
            return
        if attempt is None:
            if ending != "retry":
                await self._ended_elsewhere(job, error)
            return
        if error is not None and ending in ("dead", "retry") and not attempt.now.error:
            await self._failed(job, attempt, error)
        if ending == "retry":
            return
        if ending != "success":
            at = attempt.now.ended or attempt.ended()
            attempt.kept = replace(attempt.kept, ending=ending, ended=at)
            if ending == "cancel":
                error = error or JobCancelled("the job was cancelled")
                attempt.result.errors.append(cancelled())
            await self._write(job, attempt)
        _finish(attempt)
        await self._send(task_finished, attempt.result, error)

    async def _begin(self, job: JobContext) -> _Attempt:
        call = records.decoded(record_header.body(job.leased.record))
        facts = Facts.of_call(call) or Facts(self._registered.base.backend)
        result_ms = (call[3] if len(call) > 3 else {}).get("result_ms", self._result_ms)
        before: list[KeptAttempt] = []
        try:
            if job.attempt > 1:
                known = await self._app.runtime.arun(facts_kept.read(self._keys(job), job.id))
                before = known.before(job.attempt) if known is not None else []
            now = KeptAttempt(job.attempt, job.worker, job.fence)
            kept = Kept(job.task, facts, enqueued_at(job.id) or 0, attempts=[*before, now])
            await self._app.runtime.arun(facts_kept.write(self._keys(job), job.id, kept, job.fence, result_ms))
        except LockworkError as error:
            # the function has not begun: the job returns to the queue, or another worker has it already
            log.warning("job %s waits: its attempt could not be noted: %s", job.id, error)
            raise Again(_SOON_MS, counted=False) from error
        kept = replace(kept, args=call[1], kwargs=call[2] if len(call) > 2 else {})
        task = self._registered.task_of(facts, job.queue)
        result = of_attempts(task, job.id, kept, _all(before, now), TaskResultStatus.RUNNING, None)
        result.errors.extend(_error_of(each) for each in _all(before, now)[:-1])
        self._attempts[job.id] = attempt = _Attempt(kept, now, time.perf_counter(), result_ms, result)
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
        failures = 0
        while True:
            try:
                await self._app.runtime.arun(
                    facts_kept.write(self._keys(job), job.id, kept, job.fence, attempt.result_ms)
                )
            except ServerUnavailable as error:
                failures += 1
                log.warning("job %s: what is kept about it waits for the server: %s", job.id, error)
                await asyncio.sleep(backoff(failures))
                continue
            except LockworkError as error:
                log.warning("job %s: the facts about its attempt could not be kept: %s", job.id, error)
            return

    async def _ended_elsewhere(self, job: JobContext, error: BaseException | None) -> None:
        """Send the end of a job that this process did not run."""
        loop = asyncio.get_running_loop()
        until = loop.time() + _SETTLED
        while True:
            found = await self._registered.afind(job.id)
            result = (
                None
                if found is None
                else task_result(found, self._registered.task_of(found.kept.facts, found.queue), job.id)
            )
            if result is not None and result.is_finished:
                await self._send(task_finished, result, error)
                return
            if loop.time() > until:
                log.warning("job %s has ended, but its outcome is not on the server yet: no task_finished", job.id)
                return
            await asyncio.sleep(0.1)  # the worker sends outcomes in batches

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
