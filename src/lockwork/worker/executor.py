"""Executing: from a leased record to an outcome."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from time import perf_counter
from typing import Any

from lockwork import backoff, codecs
from lockwork.config import Config
from lockwork.errors import ConfigError, PayloadTooLarge, UnknownTask
from lockwork.failures import line
from lockwork.injection.calling import Caller
from lockwork.protocol import jobs
from lockwork.protocol.jobs import Leased, Outcome
from lockwork.tasks import Registry, Task
from lockwork.worker.context import JobContext, Slot
from lockwork.worker.settler import Settler
from lockwork.worker.telling import FailedAttempt, Teller
from lockwork.worker.threads import JobTimeout, Threads

log: logging.Logger = logging.getLogger("lockwork.worker")

_NOTHING = b"null"


class Executor:
    """Runs the jobs of one queue."""

    def __init__(
        self, queue: str, registry: Registry, config: Config, settler: Settler, threads: Threads, caller: Caller
    ) -> None:
        self._queue = queue
        self._registry = registry
        self._max_result = config.max_result
        self._max_payload = config.max_payload + 1024
        self._settler = settler
        self._threads = threads
        self._caller = caller
        self._hooks = registry.around.hooks
        self._errors = registry.around.errors
        self._teller = Teller(self._hooks, threads)
        self.giving_back = False
        """Set while the worker cancels what runs because it must go: those jobs are given back."""

    async def run(self, job: Leased, slot: Slot) -> None:
        """Run one job to its outcome; never raises, except when the lane itself is ended."""
        try:
            task, args, kwargs = self._read(job)
        except Exception as error:  # noqa: BLE001 - what the wire brought may be anything
            await self._unread(job, error)
            return
        context = slot.job = JobContext(job.id, task.name, self._queue, job.attempt, job.fence)
        watched = self._hooks.in_worker
        began = perf_counter() if watched else 0.0
        value: Any = None
        failed: FailedAttempt | None
        try:
            if task.plain and not watched:
                value = await task.function(*args, **kwargs)
            else:
                value = await self._value(task, context, args, kwargs)
        except BaseException as error:
            if self.giving_back and isinstance(error, asyncio.CancelledError):
                if task.is_async:
                    self.give_back(job)
                # a thread cannot be stopped: its job is given back by the supervisor once this process is gone
                slot.job = None
                raise
            failed = self._failed(job, error, task.options_in_force.backoff)
        else:
            failed = self._succeeded(job, task, value)
        try:
            if watched:
                # its outcome is on its way to the server: whatever hooks do changes nothing any more
                await self._teller.ended(context, perf_counter() - began, value, failed)
        finally:
            slot.job = None

    async def _value(
        self, task: Task[Any, Any, Any], context: JobContext, args: list[Any], kwargs: dict[str, Any]
    ) -> Any:
        """Run a task that is not plain, or that hooks are told of."""
        timeout = task.options_in_force.timeout
        if self._hooks.on_start:
            await self._teller.started(context, args, kwargs)
        if task.injected:
            return await self._caller.call(
                task.function, task.injection, args, kwargs, is_async=task.is_async, timeout=timeout
            )
        if not task.is_async:
            return await self._threads.run(task.function, args, kwargs, timeout)
        if timeout is None:
            return await task.function(*args, **kwargs)
        return await limited(task.function(*args, **kwargs), timeout)

    async def _unread(self, job: Leased, error: Exception) -> None:
        """What cannot be read goes to the dead set; a task that is not known here may be known to the next worker."""
        if isinstance(error, UnknownTask):
            failed = self._failed(job, error, 1.0)
        else:
            log.error("job %s cannot be read, and goes to the dead set: %s", job.id, error)
            failed = self._dead(job, error)
        if self._hooks.in_worker:
            await self._teller.ended(JobContext(job.id, "", self._queue, job.attempt, job.fence), 0.0, None, failed)

    def give_back(self, job: Leased) -> None:
        """Return a job to its queue; that it was leased does not count as an attempt."""
        self._settler.add(Outcome(job.id, job.token, "g"))

    def _read(self, job: Leased) -> tuple[Task[Any, Any, Any], list[Any], dict[str, Any]]:
        if len(job.record) > self._max_payload:
            raise ValueError(f"it is {len(job.record)} bytes, over the cap of {self._max_payload}")
        call = codecs.decode(jobs.body(job.record))
        if not isinstance(call, list) or not 2 <= len(call) <= 3 or not isinstance(call[1], list):
            raise ValueError("it is not a call of a task")
        task = self._registry.get(call[0]) if isinstance(call[0], str) else self._registry.get(str(call[0]))
        args: list[Any] = call[1]
        kwargs: dict[str, Any] = call[2] if len(call) == 3 else {}
        task.signature.convert(args, kwargs)
        return task, args, kwargs

    def _succeeded(self, job: Leased, task: Task[Any, Any, Any], value: object) -> FailedAttempt | None:
        if not task.options_in_force.keep_result:
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
                return self._dead(job, error)
        self._settler.add(Outcome(job.id, job.token, "s", encoded))
        return None

    def _failed(self, job: Leased, error: BaseException, base: float) -> FailedAttempt:
        deliveries = jobs.deliveries(job.record)
        if job.attempt >= deliveries:
            log.error("job %s failed for good after %d attempts: %s", job.id, job.attempt, line(error))
            return self._dead(job, error)
        pause = backoff.delay(job.attempt, base)
        log.warning("job %s failed, attempt %d of %d: %s", job.id, job.attempt, deliveries, line(error))
        self._settler.add(Outcome(job.id, job.token, "r", self._errors.stored(error), int(pause * 1000)))
        return FailedAttempt(error, pause)

    def _dead(self, job: Leased, error: BaseException) -> FailedAttempt:
        self._settler.add(Outcome(job.id, job.token, "d", self._errors.stored(error)))
        return FailedAttempt(error, None)


async def limited(awaitable: Awaitable[Any], timeout: float) -> Any:
    """Await, at most so long; raises JobTimeout."""
    limit = asyncio.timeout(timeout)
    try:
        async with limit:
            return await awaitable
    except TimeoutError:
        if limit.expired():
            raise JobTimeout(f"it took longer than {timeout:g} s") from None
        raise
