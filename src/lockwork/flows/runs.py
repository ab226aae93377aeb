"""The handle of an enqueued flow: its state, its result, its jobs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, TypeVar

from lockwork import codecs
from lockwork.durations import Duration, seconds
from lockwork.errors import ConfigError, JobCancelled, JobFailed, PayloadRejected, ResultTimeout, ResultUnavailable
from lockwork.failures import Errors, Failure
from lockwork.flows.found import FoundFlowJob
from lockwork.ids import made_at, node_id
from lockwork.jobs.job import Job, Origin
from lockwork.jobs.waits import Wait, unserved_text, warn_if_unserved
from lockwork.payloads.payloads import opened
from lockwork.protocol.effects import Protocol
from lockwork.protocol.flows import flow_graph
from lockwork.protocol.flows import flows as flows_protocol
from lockwork.protocol.flows.flow_graph import FlowNode
from lockwork.protocol.flows.flows import FlowDetails, StoredOutcome
from lockwork.protocol.keys import QueueKeys
from lockwork.runtime.runtime import Runtime
from lockwork.tasks.call import ResultRef
from lockwork.validation import whole

R = TypeVar("R")
FlowState = Literal["running", "compensating", "succeeded", "failed", "cancelled", "unknown"]


@dataclass(frozen=True, slots=True)
class FlowStatus:
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
    skipped: int = 0
    """Jobs that did not run, because no job failed whose failure they waited for."""

    @property
    def ended(self) -> int:
        """Number of jobs that have ended."""
        return self.succeeded + self.failed + self.cancelled + self.skipped


@dataclass(frozen=True, slots=True)
class FlowSummary:
    """One flow of a list: its queue, when it was enqueued, and its status."""

    id: str
    queue: str
    enqueued: datetime | None
    status: FlowStatus


@dataclass(frozen=True, slots=True)
class FlowPage:
    """Flows, the newest first; `searched` of `total` stored entries were read. Each flow and each job has some."""

    flows: list[FlowSummary]
    searched: int
    total: int | None
    """None if the search ended before all were looked at."""


class FlowRun:
    """An enqueued flow; `lw.flow(id=..., queue=...)` finds it again."""

    __slots__ = ("_errors", "_keys", "_queues", "_returns", "_runtime", "id", "queue")

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
        self._queues: dict[int, str] | None = None
        """The queues of its jobs that are not in `queue`; None if they are not known."""
        self.id: str = id
        self.queue: str = queue

    def known_to_be_in(self, queues: dict[int, str]) -> FlowRun:
        """Note the queues of jobs that are not in the flow's own; return the run."""
        self._queues = queues
        return self

    def result(self, timeout: Duration | None = None) -> Any:
        """Wait until the flow has ended, and return its result: that of the job that no other job waits for, or a list.

        Raises JobFailed if a job failed whose failure is not ignored, JobCancelled, ResultTimeout, or ResultUnavailable
        if the flow is unknown or deleted.
        """
        with Wait(self, self._keys.name):
            return self._read(*self._runtime.run(self._outcome(timeout)))

    async def aresult(self, timeout: Duration | None = None) -> Any:
        """Async version of `result`."""
        with Wait(self, self._keys.name):
            outcome = await self._runtime.arun(self._outcome(timeout))
        return self._read(*outcome)

    def inspect(self) -> FlowStatus:
        """Read the flow's state, and count its jobs by outcome."""
        return _status(self._runtime.run(self._locate()))

    async def ainspect(self) -> FlowStatus:
        """Async version of `inspect`."""
        return _status(await self._runtime.arun(self._locate()))

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
        id, name = node_id(self.id, number), (self._queues or {}).get(number, self.queue)
        keys = self._keys if name == self.queue else QueueKeys(self._keys.prefix, name)
        origin = Origin(self._runtime, keys, self._returns.get(number, Any), self._errors)
        return Job(origin, id) if self._queues is not None else FoundFlowJob(origin, id, self.id, number)

    def jobs(self) -> list[Job[Any]]:
        """Return all jobs of the flow, in the order of their `add` calls; none if the flow is unknown."""
        return self._all(self._runtime.run(self._locate(jobs=True)))

    async def ajobs(self) -> list[Job[Any]]:
        """Async version of `jobs`."""
        return self._all(await self._runtime.arun(self._locate(jobs=True)))

    def graph(self, limit: int = 1000, *, first: int = 1) -> list[FlowNode]:
        """Read up to `limit` of its jobs from number `first` on: their states and dependencies."""
        return self._runtime.run(self._graph(limit, first))

    async def agraph(self, limit: int = 1000, *, first: int = 1) -> list[FlowNode]:
        """Async version of `graph`."""
        return await self._runtime.arun(self._graph(limit, first))

    def _locate(self, *, jobs: bool = False) -> Protocol[FlowDetails | None]:
        """Read the flow's state, and `queue` if only a part of it is here. jobs: also read the queues of its jobs."""
        self._keys, details = yield from flows_protocol.locate(self._keys, self.id)
        self.queue = self._keys.name
        if jobs and details and self._queues is None:
            numbers = range(1, details.jobs + 1) if details.spans else ()
            self._queues = yield from flow_graph.queues(self._keys, self.id, numbers)
        return details

    def _graph(self, limit: int, first: int) -> Protocol[list[FlowNode]]:
        most, begin = (
            whole(limit, "limit", 1, flows_protocol.MOST_JOBS),
            whole(first, "first", 1, flows_protocol.MOST_JOBS),
        )
        self._keys, nodes = yield from flow_graph.graph(self._keys, self.id, begin, most)
        self.queue = self._keys.name
        return nodes

    def _all(self, details: FlowDetails | None) -> list[Job[Any]]:
        return [self.job(number) for number in range(1, details.jobs + 1)] if details else []

    def _cancel(self) -> Protocol[bool]:
        state, _ = yield from flows_protocol.cancel(self._keys, self.id, self._runtime.window_ms)
        return state == "cancelled"

    def _outcome(self, timeout: Duration | None) -> Protocol[tuple[FlowDetails | None, dict[int, StoredOutcome], str]]:
        """Wait for the end; also return why the flow may not end, if it has not."""
        limit = None if timeout is None else seconds(timeout, "timeout", zero=True)
        warn = warn_if_unserved(self._runtime, self._keys, self.id, f"flow {self.id}") if limit is None else None
        details = yield from flows_protocol.ended(self._keys, self.id, self._runtime.channel, limit, warn)
        if details is not None and details.state != "ended":
            return details, {}, (yield from unserved_text(self._runtime, self._keys, self.id))
        if details is None or details.failure or details.stopped:
            return details, {}, ""
        numbers = list(_numbers(details.answer))
        outcomes = yield from flows_protocol.results(self._keys, self.id, numbers)
        return details, dict(zip(numbers, outcomes, strict=True)), ""

    def _read(self, details: FlowDetails | None, outcomes: dict[int, StoredOutcome], unserved: str) -> Any:
        name = f"flow {self.id} in queue {self.queue!r}"
        if details is None or not all(outcome.blob for outcome in outcomes.values()):
            raise ResultUnavailable(
                f"nothing is known of {name}: its results have expired, or it never existed; for another queue, use "
                "lw.flow(id=..., queue=...)"
            )
        if details.state != "ended":
            done = _status(details).ended
            why = f", and {unserved}" if unserved else ""
            raise ResultTimeout(f"{name} has not ended yet: {done} of its {details.jobs} jobs have{why}")
        if details.blob[:1] == b"f":
            undone = f"; {details.compensated} compensations have run" if details.compensated else ""
            if details.uncompensated:
                undone += f"; {details.uncompensated} compensations failed"
            job = node_id(self.id, details.failure)
            stored, payloads = details.blob[1:], self._runtime.payloads
            failure = Failure.read(stored if payloads is None else payloads.open_error(details.failed_in, job, stored))
            message = f"{name} failed: job {job}: {failure}{undone}"
            raise JobFailed(message, failure.type, failure.text, failure.traceback)
        if details.failure or details.stopped:
            raise JobCancelled(f"{name} was cancelled")
        return self._filled(details.answer, outcomes)

    def _filled(self, answer: Any, outcomes: dict[int, StoredOutcome]) -> Any:
        if isinstance(answer, list):
            return [self._filled(one, outcomes) for one in answer]
        blob, queue = outcomes[answer]
        if blob[:1] != b"s" or len(blob) == 1:
            return None
        id = node_id(self.id, answer)
        try:
            encoded = opened(self._runtime.payloads, "result", queue, id, blob[1:])
        except PayloadRejected as error:
            raise ResultUnavailable(str(error)) from None
        return codecs.result(encoded, self._returns.get(answer, Any), f"job {id}")

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
        details.skipped,
    )
