"""Executing: from a leased record to an outcome."""

from __future__ import annotations

import asyncio
import logging
import traceback
from typing import Any

from lockwork import backoff, codecs
from lockwork.config import Config
from lockwork.errors import ConfigError, PayloadTooLarge, UnknownTask
from lockwork.protocol import jobs
from lockwork.protocol.jobs import Leased, Outcome
from lockwork.tasks import Registry, Task
from lockwork.worker.context import JobContext, Slot
from lockwork.worker.settler import Settler
from lockwork.worker.threads import JobTimeout, Threads

log: logging.Logger = logging.getLogger("lockwork.worker")

_NOTHING = b"null"
_TRACE = 4000
_MESSAGE = 1000


class Executor:
    """Runs the jobs of one queue."""

    def __init__(self, queue: str, registry: Registry, config: Config, settler: Settler, threads: Threads) -> None:
        self._queue = queue
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
            task, args, kwargs = self._read(job)
        except UnknownTask as error:
            self._failed(job, error, 1.0)
            return
        except Exception as error:  # noqa: BLE001 - what the wire brought may be anything
            log.error("job %s cannot be read, and goes to the dead set: %s", job.id, error)
            self._settler.add(Outcome(job.id, job.token, "d", _stored(error)))
            return
        slot.job = JobContext(job.id, task.name, self._queue, job.attempt, job.fence)
        options = task.options_in_force
        try:
            if not task.is_async:
                value = await self._threads.run(task.function, args, kwargs, options.timeout)
            elif options.timeout is None:
                value = await task.function(*args, **kwargs)
            else:
                value = await _limited(task, args, kwargs, options.timeout)
        except asyncio.CancelledError as error:
            if self.giving_back:
                if task.is_async:
                    self.give_back(job)
                # a thread cannot be stopped: its job is given back by the supervisor once this process is gone
                raise
            self._failed(job, error, options.backoff)
        except BaseException as error:  # noqa: BLE001 - whatever a task raises is its outcome
            self._failed(job, error, options.backoff)
        else:
            self._succeeded(job, task, value)
        finally:
            slot.job = None

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

    def _succeeded(self, job: Leased, task: Task[Any, Any, Any], value: object) -> None:
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
                self._settler.add(Outcome(job.id, job.token, "d", _stored(error)))
                return
        self._settler.add(Outcome(job.id, job.token, "s", encoded))

    def _failed(self, job: Leased, error: BaseException, base: float) -> None:
        deliveries = jobs.deliveries(job.record)
        stored = _stored(error)
        if job.attempt >= deliveries:
            log.error("job %s failed for good after %d attempts: %s", job.id, job.attempt, _line(error))
            self._settler.add(Outcome(job.id, job.token, "d", stored))
        else:
            pause = backoff.delay(job.attempt, base)
            log.warning("job %s failed, attempt %d of %d: %s", job.id, job.attempt, deliveries, _line(error))
            self._settler.add(Outcome(job.id, job.token, "r", stored, int(pause * 1000)))


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
