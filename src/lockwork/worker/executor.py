"""Executing: from a leased record to an outcome."""

from __future__ import annotations

import asyncio
import logging
import traceback
from typing import Any

from lockwork import backoff, codecs, job_options
from lockwork.config import Config
from lockwork.errors import ConfigError, PayloadTooLarge, ServerRefused, ServerUnavailable, UnknownTask
from lockwork.protocol import jobs
from lockwork.protocol.jobs import Leased, Outcome
from lockwork.tasks import Registry, Task, TaskOptions
from lockwork.worker import flow_jobs
from lockwork.worker.context import Again, Desk, JobContext, Slot
from lockwork.worker.settler import Settler
from lockwork.worker.threads import JobTimeout, Run, Threads

log: logging.Logger = logging.getLogger("lockwork.worker")

_NOTHING = b"null"
_TRACE = 4000
_MESSAGE = 1000
_UNKNOWN = TaskOptions()


class Executor:
    """Runs the jobs of one queue."""

    def __init__(self, desk: Desk, registry: Registry, config: Config, settler: Settler, threads: Threads) -> None:
        self.desk: Desk = desk
        self._registry = registry
        self._max_result = config.max_result
        self._max_payload = config.max_payload + 1024
        self._settler = settler
        self._threads = threads
        self.giving_back = False
        """Set while the worker cancels what runs because it must go: those jobs are given back."""

    async def run(self, job: Leased, slot: Slot) -> None:
        """Run one job to its outcome; never raises, except when the lane itself is ended."""
        try:
            stored = await flow_jobs.call(job, self.desk) if flow_jobs.of_flow(job) else None
            task, args, kwargs, options = self._read(job, stored)
        except Exception as error:  # noqa: BLE001 - what the wire brought may be anything
            self._unreadable(job, error)
            return
        slot.job = context = JobContext(job, task.name, self.desk, options.tags)
        try:
            if not task.is_async:
                context.thread = run = Run(task.function, args, kwargs)
                value = await self._threads.run(run, options.timeout)
            elif options.timeout is None:
                value = await task.function(*args, **kwargs)
            else:
                value = await _limited(task, args, kwargs, options.timeout)
        except BaseException as error:
            if self._raised(job, error, context, task, options):
                raise
        else:
            self._succeeded(job, task, value, options)
        finally:
            slot.job = None
            if context.cancelled and slot.task is not None and not self.giving_back:
                while slot.task.cancelling():  # the lane goes on
                    slot.task.uncancel()

    def give_back(self, job: Leased) -> None:
        """Return a job to its queue; that it was leased does not count as an attempt."""
        self._settler.add(Outcome(job.id, job.token, "g"))

    def cancelled(self, job: Leased) -> None:
        """Settle a job that was to be cancelled, and has not finished."""
        log.info("job %s was cancelled", job.id)
        self._settler.add(Outcome(job.id, job.token, "c"))

    def _read(
        self, job: Leased, stored: Any = None
    ) -> tuple[Task[Any, Any, Any], list[Any], dict[str, Any], TaskOptions]:
        if len(job.record) > self._max_payload:
            raise ValueError(f"it is {len(job.record)} bytes, over the cap of {self._max_payload}")
        call = codecs.decode(jobs.body(job.record)) if stored is None else stored
        if not isinstance(call, list) or not 2 <= len(call) <= 4 or not isinstance(call[1], list):
            raise ValueError("it is not a call of a task")
        task = self._registry.get(call[0]) if isinstance(call[0], str) else self._registry.get(str(call[0]))
        args: list[Any] = call[1]
        kwargs: dict[str, Any] = call[2] if len(call) > 2 else {}
        options = task.options_in_force
        if len(call) == 4:
            options = job_options.carried(call[3], options)
        task.signature.convert(args, kwargs)
        return task, args, kwargs, options

    def _unreadable(self, job: Leased, error: Exception) -> None:
        if isinstance(error, UnknownTask):
            self._failed(job, error, _UNKNOWN)
        elif isinstance(error, ServerUnavailable | ServerRefused):
            log.warning("job %s cannot have the results that it uses yet: %s", job.id, error)
            self._settler.add(Outcome(job.id, job.token, "z", b"", 1000))
        else:
            log.error("job %s cannot be read, and goes to the dead set: %s", job.id, error)
            self._settler.add(Outcome(job.id, job.token, "d", _stored(error)))

    def _raised(
        self, job: Leased, error: BaseException, context: JobContext, task: Task[Any, Any, Any], options: TaskOptions
    ) -> bool:
        """Settle what did not return; True when the lane is to end, too."""
        if self.giving_back and isinstance(error, asyncio.CancelledError):
            if task.is_async:
                self.give_back(job)
            # a thread cannot be stopped: its job is given back by the supervisor once this process is gone
            return True
        if context.cancelled:
            self.cancelled(job)
        elif isinstance(error, Again):
            self._again(job, error, options)
        else:
            self._failed(job, error, options)
        return False

    def _succeeded(self, job: Leased, task: Task[Any, Any, Any], value: object, options: TaskOptions) -> None:
        if not options.keep_result:
            encoded = b""
        elif value is None:
            encoded = _NOTHING
        else:
            try:
                encoded = codecs.encode(value, f"the result of task {task.name!r}", self._max_result)
            except (ConfigError, PayloadTooLarge) as error:
                # its work is done, so running it again would only do it twice
                log.error(
                    "job %s ran, but its result cannot be kept, and it goes to the dead set: %s",
                    job.id,
                    error,
                )
                self._settler.add(Outcome(job.id, job.token, "d", _stored(error)))
                return
        self._settler.add(Outcome(job.id, job.token, "s", encoded, options.result_ms))

    def _again(self, job: Leased, wish: Again, options: TaskOptions) -> None:
        if wish.counted:
            self._failed(job, wish, options, wish.delay_ms)
        else:
            self._settler.add(Outcome(job.id, job.token, "z", b"", wish.delay_ms or 0))

    def _failed(self, job: Leased, error: BaseException, options: TaskOptions, delay_ms: int | None = None) -> None:
        deliveries = jobs.deliveries(job.record)
        if options.max_deliveries is not None:
            deliveries = min(deliveries, options.retries + 1)  # more deliveries are only for workers that die
        stored = _stored(error)
        if job.attempt >= deliveries or not options.again(error):
            log.error("job %s failed for good after %d attempts: %s", job.id, job.attempt, _line(error))
            self._settler.add(Outcome(job.id, job.token, "d", stored))
        else:
            if delay_ms is None:
                delay_ms = self._pause(job, options)
            log.warning("job %s failed, attempt %d of %d: %s", job.id, job.attempt, deliveries, _line(error))
            self._settler.add(Outcome(job.id, job.token, "r", stored, delay_ms))

    def _pause(self, job: Leased, options: TaskOptions) -> int:
        try:
            return int(backoff.pause(job.attempt, options.backoff) * 1000)
        except Exception as error:  # noqa: BLE001 - a function of the app's; its job shall run again all the same
            log.error("the back-off of job %s cannot be had, so it waits a second: %s", job.id, _line(error))
            return 1000


async def _limited(task: Task[Any, Any, Any], args: list[Any], kwargs: dict[str, Any], timeout: float) -> Any:
    limit = asyncio.timeout(timeout)
    try:
        async with limit:
            return await task.function(*args, **kwargs)
    except TimeoutError:
        if limit.expired():
            raise JobTimeout(f"it took longer than {timeout:g} s") from None
        raise


def _line(error: BaseException) -> str:
    return f"{type(error).__name__}: {_text(error)}"


def _text(error: BaseException) -> str:
    try:
        return _sendable(str(error)[:_MESSAGE])
    except Exception as problem:  # noqa: BLE001 - a task's own exception class may do anything
        return f"(its text cannot be had: {type(problem).__name__})"


def _stored(error: BaseException) -> bytes:
    # the traceback module survives an exception without a text
    trace = _sendable("".join(traceback.format_exception(error))[-_TRACE:])
    fields = {"type": type(error).__name__, "message": _text(error), "traceback": trace}
    return codecs.encode(fields, "an error", 1 << 20)


def _sendable(text: str) -> str:
    return text.encode(errors="backslashreplace").decode()
