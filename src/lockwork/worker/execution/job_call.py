"""The call of a leased job: the task, arguments and options that its record contains."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from lockwork import codecs
from lockwork.errors import PayloadKeyUnknown, RetryUntilPassed, UnknownTask
from lockwork.failures import Failure
from lockwork.ids import node_id
from lockwork.jobs import options as job_options
from lockwork.jobs.current import JobContext, QueueContext
from lockwork.payloads.payloads import no_codec, opened
from lockwork.protocol.flows import flows
from lockwork.protocol.queue import record_header, records
from lockwork.protocol.queue.leases import Leased
from lockwork.runtime.clock import now
from lockwork.tasks.call import bind, sources
from lockwork.tasks.options import TaskOptions
from lockwork.tasks.registry import Registry
from lockwork.tasks.task import Task
from lockwork.worker.execution.foreign_calls import ForeignCall

_BUDGET = 40
"""Bytes of a record that contain all numbers of its header."""
MOST_BYTES = 64 << 20
"""Maximum total bytes of the results bound to one job."""


class JobCall(Struct, frozen=True):
    """The call of a task, read from the record of a leased job."""

    job: Leased
    context: JobContext
    task: Task[Any, Any, Any]
    args: list[Any]
    kwargs: dict[str, Any]
    options: TaskOptions
    direct: bool
    """True if the worker only calls the function: without hooks, middlewares, dependencies, threads and time limits.

    The arguments were not compared with the function's parameters, because the call does that.
    """


class CallReader:
    """Reads the calls of one queue's jobs."""

    def __init__(self, queue_context: QueueContext, registry: Registry, max_payload: int) -> None:
        self._queue_context = queue_context
        self._registry = registry
        self._hooks = registry.context.hooks
        self._middlewares = registry.context.middlewares
        self._contexts = registry.context.call_contexts
        self._observers = registry.context.observers
        self._payloads = queue_context.runtime.payloads
        self._max_bytes = max_payload + 1024 if self._payloads is None else max_payload * 4 // 3 + 2048

    def read(self, job: Leased, bound: Any = None) -> JobCall:
        """Read a job's record, or the call that `bound_call` returned.

        Raises ForeignCall if another worker may be able to run the call, RetryUntilPassed, ValueError if the record is
        no call, and PayloadRejected if it is not encrypted or signed as the app requires.
        """
        if len(job.record) > self._max_bytes and not (self._payloads is None and records.is_encrypted(job.record)):
            raise ValueError(f"it is {len(job.record)} bytes, and the limit is {self._max_bytes}")
        call = self._stored(job) if bound is None else bound
        shaped = isinstance(call, list) and 2 <= len(call) <= 4 and isinstance(call[1], list)
        if not shaped or not isinstance(call[0], str):
            if records.is_encrypted(job.record):
                raise self._without_key(job) from no_codec(f"job {job.id} in queue {self._queue_context.queue!r}")
            raise ValueError("it is not a call of a task")
        name, args, kwargs = call[0], call[1], call[2] if len(call) > 2 else {}
        try:
            task = self._registry.get(name)
        except UnknownTask as error:
            raise ForeignCall(name, "") from error
        options = task.options_in_force if len(call) < 4 else job_options.carried(call[3], task.options_in_force)
        if b"/" in job.record[:_BUDGET]:
            options = _timed(job, options)
        direct = (
            task.plain
            and options.timeout is None
            and options.hard_timeout is None
            and not (self._hooks.in_worker or self._middlewares.around_jobs or self._contexts.on_loop)
            and name not in self._observers
        )
        try:
            task.signature.convert(args, kwargs)
        except (ValueError, TypeError) as error:
            raise ForeignCall(name, task.version) from error
        if not direct:
            try:
                task.signature.check(args, kwargs)
            except TypeError as error:
                raise ForeignCall(name, task.version, options) from error
        context = JobContext(job, name, self._queue_context, options.tags)
        return JobCall(job, context, task, args, kwargs, options, direct)

    async def bound_call(self, job: Leased) -> Any:
        """Return the stored call with the results and errors that it uses; raises ValueError if one is missing."""
        stored: Any = self._stored(job)
        if not isinstance(stored, list) or len(stored) < 6 or not isinstance(stored[1], list):
            return stored
        args, kwargs, references, optional = stored[1], stored[2], stored[4], set(stored[5])
        wanted = list(dict.fromkeys(sources(references)))
        flow, undoes = flows.flow_of(job.id), job.id.endswith("u")
        results: dict[int, Any] = {}
        outcomes = await self._outcomes(flow, [number for number in wanted if number > 0])
        for number, (blob, source) in outcomes.items():
            if blob[:1] == b"s":
                results[number] = self._result(job, source, node_id(flow, number), blob[1:])
            elif blob and (undoes or number in optional):
                results[number] = None
            else:
                reason = "it is not known any more" if not blob else "it has none"
                raise ValueError(f"it uses the result of job {node_id(flow, number)}, and {reason}")
        results |= await self._errors(job, flow, [-number for number in wanted if number < 0])
        bind(args, kwargs, references, results)
        return stored[:4]

    async def _outcomes(self, flow: str, numbers: list[int]) -> dict[int, flows.StoredOutcome]:
        """Read the outcomes of jobs of the flow; raises ValueError if they are too large."""
        if not numbers:
            return {}
        reading = flows.results(self._queue_context.keys, flow, numbers, MOST_BYTES)
        outcomes = await self._queue_context.runtime.arun(reading)
        if len(outcomes) < len(numbers):
            raise ValueError(f"the results that it uses exceed {MOST_BYTES} bytes")
        return dict(zip(numbers, outcomes, strict=True))

    async def _errors(self, job: Leased, flow: str, numbers: list[int]) -> dict[int, Any]:
        """Return the errors of jobs of the flow, by their negative numbers; None for a job that has not failed.

        A job that was cancelled because another failed has the error of that job. Raises ValueError if none failed.
        """
        outcomes = await self._outcomes(flow, numbers)
        failed = {number: number for number, (blob, _) in outcomes.items() if blob[:1] == b"f"}
        failed |= {number: int(blob[1:]) for number, (blob, _) in outcomes.items() if blob[:1] == b"c" and blob[1:]}
        outcomes |= await self._outcomes(flow, [number for number in set(failed.values()) if number not in outcomes])
        errors: dict[int, Any] = {-number: None for number in numbers}
        for number, cause in failed.items():
            blob, queue = outcomes[cause]
            if blob[:1] == b"f":
                errors[-number] = self._error(job, queue, node_id(flow, cause), blob[1:])
        if numbers and not any(errors.values()):
            raise ValueError(f"it uses the error of job {node_id(flow, numbers[0])}, and that job has none")
        return errors

    def _stored(self, job: Leased) -> Any:
        """Decode a job's record; raises as `read`."""
        record = job.record
        if self._payloads is not None:
            try:
                record = self._payloads.open_call(self._queue_context.queue, job.id, record)
            except PayloadKeyUnknown as error:
                raise self._without_key(job) from error
        return codecs.decode(record_header.body(record))

    def _result(self, job: Leased, queue: str, id: str, stored: bytes) -> Any:
        """Decode the result of another job of the flow; raises ForeignCall and PayloadRejected."""
        try:
            return codecs.decode(opened(self._payloads, "result", queue, id, stored))
        except PayloadKeyUnknown as error:
            raise self._without_key(job) from error

    def _error(self, job: Leased, queue: str, id: str, stored: bytes) -> dict[str, str]:
        """Return the error of another job of the flow, as the fields of a JobFailure; raises ForeignCall."""
        if self._payloads is not None:
            try:
                stored = self._payloads.open_error(queue, id, stored)
            except PayloadKeyUnknown as error:
                raise self._without_key(job) from error
        failure = Failure.read(stored)
        return {"id": id, "queue": queue, "type": failure.type, "text": failure.text, "traceback": failure.traceback}

    def _without_key(self, job: Leased) -> ForeignCall:
        """Return what lets a job wait for a worker that has the key."""
        name = records.read(job.record, len(job.record), job.id).task or ""
        try:
            version = self._registry.get(name).version
        except UnknownTask:
            version = ""
        return ForeignCall(name, version, without_key=True)


def _timed(job: Leased, options: TaskOptions) -> TaskOptions:
    """Return the options with the last start of this job; raises RetryUntilPassed if that was before its lease."""
    limit_ms = record_header.retry_until(job.record, job.id)
    if limit_ms is None:
        return options
    # the fence is the server's time of the lease (µs), so this worker's clock does not matter
    left = limit_ms / 1000 - job.fence / 1_000_000
    if left <= 0:
        when = datetime.fromtimestamp(limit_ms / 1000, UTC).isoformat(sep=" ", timespec="seconds")
        raise RetryUntilPassed(
            f"its retry_until, {when}, passed before attempt {job.attempt} could begin: retry the job to run it "
            "without this limit"
        )
    return replace(options, last_start=now() + left)


def of_flow(job: Leased) -> bool:
    """Return True if the job belongs to a flow."""
    # the token of a plain job avoids reading the record
    return b"*" in job.token and flows.is_marked(job.record)
