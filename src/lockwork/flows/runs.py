"""The handle of an enqueued flow: its state, its result, its jobs."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Literal, TypeVar

from msgspec import Struct

from lockwork import codecs
from lockwork.durations import Duration, seconds
from lockwork.errors import ConfigError, JobCancelled, JobFailed, ResultTimeout, ResultUnavailable
from lockwork.failures import Errors, Failure
from lockwork.ids import made_at, node_id
from lockwork.jobs.job import Job, Origin
from lockwork.jobs.waits import Wait, warn_if_unserved
from lockwork.protocol.effects import Protocol
from lockwork.protocol.flows import flows as flows_protocol
from lockwork.protocol.flows.flow_graph import FlowNode, graph
from lockwork.protocol.flows.flows import FlowDetails
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import job_control as control
from lockwork.runtime.runtime import Runtime
from lockwork.tasks.call import ResultRef
from lockwork.validation import whole

R = TypeVar("R")
FlowState = Literal["running", "compensating", "succeeded", "failed", "cancelled", "unknown"]


class FlowStatus(Struct, frozen=True):
    """The state of a flow, and its jobs by outcome."""

    state: FlowState
    jobs: int = 0
    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0
    compensated: int = 0
    """Compensations that succeeded."""
    uncompensated: int = 0
    """Compensations that failed."""

    @property
    def ended(self) -> int:
        """Number of jobs that have ended."""
        return self.succeeded + self.failed + self.cancelled


class FlowSummary(Struct, frozen=True):
    """One flow of a list: its queue, when it was enqueued, and its status."""

    id: str
    queue: str
    enqueued: datetime | None
    status: FlowStatus


class FlowPage(Struct, frozen=True):
    """Flows, the newest first; `searched` of `total` stored entries were read. Each flow and each job has some."""

    flows: list[FlowSummary]
    searched: int
    total: int | None
    """None if the search ended before all were looked at."""


class FlowRun:
    """An enqueued flow; `lw.flow(id=..., queue=...)` finds it again."""

    __slots__ = ("_errors", "_keys", "_returns", "_runtime", "id", "queue")

    def __init__(
        self,
        runtime: Runtime,
        keys: QueueKeys,
        queue: str,
        id: str,
        errors: Errors,
        returns: dict[int, Any] | None = None,
    ) -> None:
        self._runtime = runtime
        self._keys = keys
        self._errors = errors
        self._returns = returns or {}
        self.id: str = id
        self.queue: str = queue

    def result(self, timeout: Duration | None = None) -> Any:
        """Wait until the flow has ended, and return its result: that of the job that no other job waits for, or a list.

        Raises JobFailed if a job failed whose failure is not ignored, JobCancelled, ResultTimeout, or ResultUnavailable
        if the flow is unknown or deleted.
        """
        with Wait(self, self._keys.name):
            details, blobs = self._runtime.run(self._outcome(timeout))
        return self._read(details, blobs)

    async def aresult(self, timeout: Duration | None = None) -> Any:
        """Async version of `result`."""
        with Wait(self, self._keys.name):
            details, blobs = await self._runtime.arun(self._outcome(timeout))
        return self._read(details, blobs)

    def inspect(self) -> FlowStatus:
        """Read the flow's state, and count its jobs by outcome."""
        return _status(self._runtime.run(flows_protocol.inspect(self._keys, self.id)))

    async def ainspect(self) -> FlowStatus:
        """Async version of `inspect`."""
        return _status(await self._runtime.arun(flows_protocol.inspect(self._keys, self.id)))

    def cancel(self) -> bool:
        """Cancel all of its jobs that have not ended; False if the flow has ended, or is unknown.

        Workers cancel running jobs. Jobs that succeeded are compensated if the policy says so.
        """
        return self._runtime.run(self._cancel())

    async def acancel(self) -> bool:
        """Async version of `cancel`."""
        return await self._runtime.arun(self._cancel())

    def job(self, node: ResultRef | int) -> Job[Any]:
        """Return the job of a node, or of a number, counted from 1 in the order of `add`. Raises ConfigError."""
        number = node.number if isinstance(node, ResultRef) else node
        if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= flows_protocol.MOST_JOBS:
            raise ConfigError(f"a flow's job is a node of its plan, or a number from 1 on, not {node!r:.60}")
        origin = Origin(self._runtime, self._keys, self._returns.get(number, Any), self._errors)
        return Job(origin, node_id(self.id, number))

    def jobs(self) -> list[Job[Any]]:
        """Return all jobs of the flow, in the order of their `add` calls; none if the flow is unknown."""
        return self._all(self._runtime.run(flows_protocol.inspect(self._keys, self.id)))

    async def ajobs(self) -> list[Job[Any]]:
        """Async version of `jobs`."""
        return self._all(await self._runtime.arun(flows_protocol.inspect(self._keys, self.id)))

    def graph(self, limit: int = 1000, *, first: int = 1) -> list[FlowNode]:
        """Read up to `limit` of its jobs from number `first` on: their states and dependencies."""
        return self._runtime.run(self._graph(limit, first))

    async def agraph(self, limit: int = 1000, *, first: int = 1) -> list[FlowNode]:
        """Async version of `graph`."""
        return await self._runtime.arun(self._graph(limit, first))

    def _graph(self, limit: int, first: int) -> Protocol[list[FlowNode]]:
        most, begin = (
            whole(limit, "limit", 1, flows_protocol.MOST_JOBS),
            whole(first, "first", 1, flows_protocol.MOST_JOBS),
        )
        return graph(self._keys, self.id, begin, most)

    def _all(self, details: FlowDetails | None) -> list[Job[Any]]:
        return [self.job(number) for number in range(1, details.jobs + 1)] if details else []

    def _cancel(self) -> Protocol[bool]:
        state, running = yield from flows_protocol.cancel(self._keys, self.id, self._runtime.window_ms)
        for id in running:
            yield from control.cancel(self._keys, id, self._runtime.prefix, self._runtime.window_ms)
        return state == "cancelled"

    def _outcome(self, timeout: Duration | None) -> Protocol[tuple[FlowDetails | None, dict[int, bytes]]]:
        limit = None if timeout is None else seconds(timeout, "timeout", zero=True)
        unserved = warn_if_unserved(self._keys, self.id, f"flow {self.id}") if limit is None else None
        details = yield from flows_protocol.ended(self._keys, self.id, self._runtime.channel, limit, unserved)
        if details is None or details.state != "ended" or details.failure or details.stopped:
            return details, {}
        numbers = list(_numbers(details.answer))
        blobs = yield from flows_protocol.results(self._keys, self.id, numbers)
        return details, dict(zip(numbers, blobs, strict=True))

    def _read(self, details: FlowDetails | None, blobs: dict[int, bytes]) -> Any:
        name = f"flow {self.id} in queue {self.queue!r}"
        if details is None or not all(blobs.values()):
            raise ResultUnavailable(
                f"nothing is known of {name}: its results have expired, or it never existed; for another queue, use "
                "lw.flow(id=..., queue=...)"
            )
        if details.state != "ended":
            done = details.succeeded + details.failed + details.cancelled
            raise ResultTimeout(f"{name} has not ended yet: {done} of its {details.jobs} jobs have")
        if details.blob[:1] == b"f":
            undone = f"; {details.compensated} compensations have run" if details.compensated else ""
            if details.uncompensated:
                undone += f"; {details.uncompensated} compensations failed"
            job = node_id(self.id, details.failure)
            failure = Failure.read(details.blob[1:])
            message = f"{name} failed: job {job}: {failure}{undone}"
            raise JobFailed(message, failure.type, failure.text, failure.traceback)
        if details.failure or details.stopped:
            raise JobCancelled(f"{name} was cancelled")
        return self._filled(details.answer, blobs)

    def _filled(self, answer: Any, blobs: dict[int, bytes]) -> Any:
        if isinstance(answer, list):
            return [self._filled(one, blobs) for one in answer]
        blob = blobs[answer]
        if blob[:1] != b"s" or len(blob) == 1:
            return None
        return codecs.result(blob[1:], self._returns.get(answer, Any), f"job {node_id(self.id, answer)}")

    def __repr__(self) -> str:
        return f"<FlowRun {self.id} queue={self.queue!r}>"


def _numbers(answer: Any) -> list[int]:
    return [number for one in answer for number in _numbers(one)] if isinstance(answer, list) else [answer]


def page(found: Iterable[tuple[str, dict[str, FlowDetails], int, bool]], limit: int) -> FlowPage:
    """Return the newest flows of several queues: of each its name, its flows, and how much of it was searched."""
    rows: list[FlowSummary] = []
    searched, whole_of_it = 0, True
    for queue, flows, looked, complete in found:
        searched, whole_of_it = searched + looked, whole_of_it and complete
        rows += [FlowSummary(id, queue, _enqueued(id), _status(details)) for id, details in flows.items()]
    rows.sort(key=lambda row: row.id, reverse=True)  # an id begins with its time
    return FlowPage(rows[:limit], searched, searched if whole_of_it else None)


def _enqueued(id: str) -> datetime | None:
    enqueued_ms = made_at(id)
    return None if enqueued_ms is None else datetime.fromtimestamp(enqueued_ms / 1000, UTC)


def _status(details: FlowDetails | None) -> FlowStatus:
    if details is None:
        return FlowStatus("unknown")
    state: FlowState
    if details.state != "ended":
        state = details.state
    elif details.blob[:1] == b"f":
        state = "failed"
    else:
        state = "cancelled" if details.failure or details.stopped else "succeeded"
    return FlowStatus(
        state,
        details.jobs,
        details.succeeded,
        details.failed,
        details.cancelled,
        details.compensated,
        details.uncompensated,
    )
