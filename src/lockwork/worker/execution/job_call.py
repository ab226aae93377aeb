"""The call of a leased job: the task, arguments and options that its record contains."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from lockwork import codecs
from lockwork.errors import UnknownTask
from lockwork.ids import node_id
from lockwork.jobs import options as job_options
from lockwork.jobs.current import JobContext, QueueContext
from lockwork.protocol.flows import flows
from lockwork.protocol.queue import record_header
from lockwork.protocol.queue.leases import Leased
from lockwork.tasks.call import bind, sources
from lockwork.tasks.options import TaskOptions
from lockwork.tasks.registry import Registry
from lockwork.tasks.task import Task
from lockwork.worker.execution.foreign_calls import ForeignCall

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
        self._max_bytes = max_payload + 1024

    def read(self, job: Leased, bound: Any = None) -> JobCall:
        """Read a job's record, or the call that `bound_call` returned.

        Raises ForeignCall if another worker may be able to run the call, and ValueError if the record is no call.
        """
        if len(job.record) > self._max_bytes:
            raise ValueError(f"it is {len(job.record)} bytes, and the limit is {self._max_bytes}")
        call = codecs.decode(record_header.body(job.record)) if bound is None else bound
        shaped = isinstance(call, list) and 2 <= len(call) <= 4 and isinstance(call[1], list)
        if not shaped or not isinstance(call[0], str):
            raise ValueError("it is not a call of a task")
        name, args, kwargs = call[0], call[1], call[2] if len(call) > 2 else {}
        try:
            task = self._registry.get(name)
        except UnknownTask as error:
            raise ForeignCall(name, "") from error
        options = task.options_in_force if len(call) < 4 else job_options.carried(call[3], task.options_in_force)
        direct = (
            task.plain
            and options.timeout is None
            and options.hard_timeout is None
            and not (self._hooks.in_worker or self._middlewares.around_jobs or self._contexts.on_loop)
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
        """Return the stored call with the results that it uses; raises ValueError if a result is missing."""
        stored: Any = codecs.decode(record_header.body(job.record))
        if not isinstance(stored, list) or len(stored) < 6:
            return stored
        args, kwargs, references, optional = stored[1], stored[2], stored[4], set(stored[5])
        numbers = list(dict.fromkeys(sources(references)))
        queue, flow = self._queue_context.keys, flows.flow_of(job.id)
        blobs = await self._queue_context.runtime.arun(flows.results(queue, flow, numbers, MOST_BYTES))
        if len(blobs) < len(numbers):
            raise ValueError(f"the results that it uses exceed {MOST_BYTES} bytes")
        undoes = job.id.endswith("u")
        results: dict[int, Any] = {}
        for number, blob in zip(numbers, blobs, strict=True):
            if blob[:1] == b"s":
                results[number] = codecs.decode(blob[1:])
            elif blob and (undoes or number in optional):
                results[number] = None
            else:
                reason = "it is not known any more" if not blob else "it has none"
                raise ValueError(f"it uses the result of job {node_id(flow, number)}, and {reason}")
        bind(args, kwargs, references, results)
        return stored[:4]


def of_flow(job: Leased) -> bool:
    """Return True if the job belongs to a flow."""
    # the token of a plain job avoids reading the record
    return b"*" in job.token and flows.is_marked(job.record)
