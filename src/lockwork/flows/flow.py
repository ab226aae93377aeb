"""Flows: jobs that wait for each other and use each other's results; enqueued as a whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Generic, TypeVar, cast, get_args

from lockwork.config import Config
from lockwork.errors import ConfigError, ServerUnavailable
from lockwork.flows.placement import FlowPlacement, Place, RunPlacement
from lockwork.flows.runs import FlowRun
from lockwork.ids import new_id, node_id
from lockwork.jobs.options import with_headers
from lockwork.jobs.snapshot import JobFailure
from lockwork.payloads.payloads import Payloads
from lockwork.protocol.effects import Protocol
from lockwork.protocol.flows import flows as flows_protocol
from lockwork.protocol.flows.flows import MOST_JOBS, MOST_LINKS, FlowJob, Policy
from lockwork.protocol.keys import QueueKeys
from lockwork.runtime.runtime import Runtime
from lockwork.tasks.app_context import AppContext
from lockwork.tasks.call import ErrorRef, Next, ResultCall, ResultRef
from lockwork.tasks.remote import RemoteTask
from lockwork.tasks.task import Task
from lockwork.validation import one_of

R = TypeVar("R")


class Node(ResultRef, Generic[R]):
    """A job of a flow; as an argument of a call that is added later, it is replaced by its result."""

    __slots__ = ("flow", "may_fail", "number", "task")

    def __init__(self, flow: Flow, number: int, task: str, *, may_fail: bool) -> None:
        self.flow: Flow = flow
        self.number: int = number
        self.task: str = task
        self.may_fail: bool = may_fail

    @property
    def value(self) -> R:
        """The node itself, typed as the result of its job."""
        return cast("R", self)

    @property
    def error(self) -> JobFailure:
        """A reference to the error of its job: a call with it among its arguments runs only if the job fails."""
        return cast("JobFailure", ErrorRef(self))

    def __repr__(self) -> str:
        return f"<Node {self.number} {self.task!r}>"


class Flow:
    """A plan of jobs that wait for each other; `enqueue` sends it, and each `enqueue` is a new run."""

    def __init__(self, runtime: Runtime, config: Config, context: AppContext, on_failure: Policy) -> None:
        self._context = context
        self.on_failure: Policy = _policy(on_failure)
        self._runtime = runtime
        self._prefix = config.prefix
        self._max_payload = config.max_payload
        self._placement = FlowPlacement(config.partitions)
        self._jobs: list[FlowJob] = []
        self._places: list[tuple[Place, Place | None]] = []
        """The place of each job, and of its compensation."""
        self._returns: dict[int, Any] = {}
        self._links = 0
        self._kept: set[int] = set()
        self._answer: Any = None

    def add(
        self,
        call: ResultCall[R],
        *,
        after: ResultRef | Iterable[ResultRef] = (),
        after_failure: ResultRef | Iterable[ResultRef] = (),
        on_failure: Policy | None = None,
        compensate: Next[R, Any] | None = None,
    ) -> Node[R]:
        """Add a call; its job runs when the jobs whose results it uses, and the jobs in `after`, have ended.

        A call that uses the error of a node, or has jobs in `after_failure`, runs only if at least one of these jobs
        failed, or was cancelled because a job before it failed; else it is skipped.

        `on_failure` is the effect of its failure: "fail" cancels the jobs that wait for it; "ignore" gives them None as
        its result; "compensate" cancels them and then runs the compensations of the jobs that succeeded, the latest
        first. `compensate`: a call, or a task, that compensates this job. Raises ConfigError.
        """
        added = len(self._jobs)
        before = self._placement, self._links
        try:
            node = self._add(call, after, after_failure, on_failure, compensate)
            for step in call.callbacks.then:
                self._next(node, step)
            for step in call.callbacks.on_error:
                self._next(node.error, step)
        except BaseException:  # a call that is refused leaves no trace in the plan
            self._placement, self._links = before
            del self._jobs[added:], self._places[added:]
            self._returns = {number: each for number, each in self._returns.items() if number <= added}
            self._kept = {number for number in self._kept if number <= added}
            raise
        return node

    def _add(
        self,
        call: ResultCall[R],
        after: ResultRef | Iterable[ResultRef],
        after_failure: ResultRef | Iterable[ResultRef],
        on_failure: Policy | None,
        compensate: Next[R, Any] | None,
    ) -> Node[R]:
        number = len(self._jobs) + 1
        policy = self.on_failure if on_failure is None else _policy(on_failure)
        self._placement = self._placement.with_call(call)
        if number > MOST_JOBS:
            raise ConfigError(f"a flow has at most {MOST_JOBS:,} jobs: enqueue several flows")
        errors = [ref.job for ref in call.uses if isinstance(ref, ErrorRef)]
        results = [ref for ref in call.uses if not isinstance(ref, ErrorRef)]
        parents = {self._number(node) for node in (*results, *_several(after))}
        causes = {self._number(node) for node in (*errors, *_several(after_failure))}
        if both := parents & causes:
            raise ConfigError(
                f"{call.task!r} waits for the success and for the failure of job {min(both)} of the flow: add two calls"
            )
        self._links += len(parents) + len(causes)
        if self._links > MOST_LINKS:
            raise ConfigError(
                f"in a flow, jobs wait for jobs at most {MOST_LINKS:,} times: between two large groups, add one job "
                "that waits for the first group, and let the second wait for that job"
            )
        self._needs_results(call)
        node: Node[R] = Node(self, number, call.task, may_fail=policy == "ignore")
        undo, undo_place = b"", None
        if compensate is not None:
            compensation = self._undo(node, compensate, number if call.keeps_result else 0)
            self._placement = self._placement.with_call(compensation)
            undo, undo_place = compensation.record, self._placement.place(compensation)
        self._places.append((self._placement.place(call), undo_place))
        self._jobs.append(FlowJob(call.record, sorted(parents), call.delay_ms, policy, undo, causes=sorted(causes)))
        self._returns[number] = call.returns
        if call.keeps_result:
            self._kept.add(number)
        return node

    def chain(self, first: ResultCall[Any] | Any, *steps: Next[Any, Any]) -> Node[Any]:
        """Add calls that each wait for the previous one; return the last node.

        `first` is a call, a node, the error of a node, or a list of these. Each step is a task that takes the previous
        result, a function that takes it and returns a call, or a call that does not use it.
        """
        if isinstance(first, ResultCall):
            last: Any = self.add(first)
        elif isinstance(first, Node) or (steps and isinstance(first, list | tuple | ErrorRef)):
            self._numbers([ref.job if isinstance(ref, ErrorRef) else ref for ref in _nodes(first)])
            last = first
        else:
            raise ConfigError(f"a chain begins with a call, such as fetch.call(1), not {first!r:.60}")
        for step in steps:
            last = self._next(last, step)
        return cast("Node[Any]", last)

    def group(self, calls: Iterable[Any]) -> list[Any]:
        """Add independent calls; return their nodes, an argument that becomes the list of results.

        Nodes, and lists of nodes, among the calls are returned unchanged, so a group can contain chains and groups.
        """
        if isinstance(calls, ResultCall | ResultRef):
            raise ConfigError("a group is a list of calls, such as [fetch.call(1), fetch.call(2)], and this is one")
        return [call if isinstance(call, ResultRef | list | tuple) else self.add(call) for call in calls]

    def chord(self, calls: Iterable[Any], callback: Next[Any, R]) -> Node[R]:
        """Add a group, and a job that gets the list of its results."""
        return cast("Node[R]", self.chain(self.group(calls), callback))

    def returning(self, answer: Any) -> Flow:
        """Select the flow's result: that of a node, or of each node in a list; return the flow."""
        self._answer = self._numbers(answer)
        return self

    def enqueue(self) -> FlowRun:
        """Enqueue the whole flow; none of its jobs runs before all are enqueued.

        Raises ConfigError, QueueFull if a queue has no space for its jobs, or ServerUnavailable; then no job runs.
        """
        run, push = self._new_run()
        with self._context.middlewares.sending("", run.queue, len(self._jobs)) as outgoing:
            outgoing.ids = (run.id,)
            self._runtime.run(push(outgoing.headers))
        return run

    async def aenqueue(self) -> FlowRun:
        """Async version of `enqueue`."""
        run, push = self._new_run()
        with self._context.middlewares.sending("", run.queue, len(self._jobs)) as outgoing:
            outgoing.ids = (run.id,)
            await self._runtime.arun(push(outgoing.headers))
        return run

    def _new_run(self) -> tuple[FlowRun, Callable[[dict[str, str]], Protocol[None]]]:
        """Return the handle of a new run, and the protocol that enqueues it, with headers for its jobs."""
        placement = self._placement.chosen()
        run = self._run(placement)
        return run, partial(self._push, run, placement)

    def _run(self, placement: RunPlacement) -> FlowRun:
        if not self._jobs and self._answer is None:  # an empty group has a result: an empty list
            raise ConfigError("the flow is empty: add a call to it, such as flow.add(fetch.call(1))")
        queue, keys = placement.home, QueueKeys(self._prefix, placement.home)
        queues = {number: placement.elsewhere(place) or queue for number, (place, _) in enumerate(self._places, 1)}
        run = FlowRun(self._runtime, keys, queue, new_id(), self._context.errors, self._returns)
        return run.known_to_be_in(queues if placement.spans else {})

    def _push(self, run: FlowRun, placement: RunPlacement, headers: dict[str, str]) -> Protocol[None]:
        jobs = [self._stamped(job, headers) for job in self._jobs] if headers else self._jobs
        if placement.spans:
            jobs = [
                job._replace(queue=placement.elsewhere(place), undo_queue=placement.elsewhere(undo_place))
                for job, (place, undo_place) in zip(jobs, self._places, strict=True)
            ]
        if (payloads := self._runtime.payloads) is not None:
            jobs = [_sealed(payloads, run, number, job) for number, job in enumerate(jobs, 1)]
        answer = self._ends() if self._answer is None else self._answer
        keys = QueueKeys(self._prefix, run.queue)
        pushing = flows_protocol.push(keys, run.id, jobs, answer, self._runtime.window_ms)
        if not (yield from self._context.announcing.after(pushing)):
            raise ServerUnavailable("the flow could not be enqueued within 10 minutes, and nothing of it will run")

    def _ends(self) -> int | list[int]:
        """Return the jobs that no other job waits for. Jobs that run only after a failure do not count."""
        after_failure: set[int] = set()
        used: set[int] = set()
        for number, job in enumerate(self._jobs, 1):
            if job.causes or any(
                one in after_failure and self._jobs[one - 1].policy != "ignore" for one in job.parents
            ):
                after_failure.add(number)
            else:
                used.update(job.parents)
        ends = [number for number in self._returns if number not in used and number not in after_failure]
        return ends[0] if len(ends) == 1 else ends

    def _stamped(self, job: FlowJob, headers: dict[str, str]) -> FlowJob:
        """Return the job with the headers of this run; its compensation gets them, too."""
        undo = with_headers(job.undo, headers, self._max_payload) if job.undo else job.undo
        return job._replace(record=with_headers(job.record, headers, self._max_payload), undo=undo)

    def _next(self, last: Any, step: Any) -> Node[Any]:
        call = step if isinstance(step, ResultCall) else _made(step, last)
        refs = _nodes(last)  # also if the call uses only some of them
        errors = [ref.job for ref in refs if isinstance(ref, ErrorRef)]
        return self.add(call, after=[ref for ref in refs if not isinstance(ref, ErrorRef)], after_failure=errors)

    def _undo(self, node: Node[Any], wanted: Any, own: int) -> ResultCall[Any]:
        call = wanted if isinstance(wanted, ResultCall) else _made(wanted, node)
        if call.delay_ms:
            raise ConfigError(f"the compensation {call.task!r} cannot have a delay")
        if call.callbacks or any(isinstance(used, ErrorRef) for used in call.uses):
            raise ConfigError(
                f"the compensation {call.task!r} cannot have then or on_error, nor use the error of a job: add a job "
                "that runs after the failure, flow.add(call, after_failure=node)"
            )
        for used in call.uses:
            self._number(used)
        self._needs_results(call, own)
        return call

    def _number(self, node: ResultRef) -> int:
        if isinstance(node, ErrorRef):
            raise ConfigError(
                f"{node!r:.60} can only be an argument of a call: to wait for a failure, use after_failure"
            )
        if not isinstance(node, Node) or node.flow is not self:
            raise ConfigError(
                f"{node!r:.60} is not a job of this flow: add jobs that wait for each other to the same flow"
            )
        return node.number

    def _numbers(self, answer: Any) -> Any:
        if isinstance(answer, list | tuple):
            return [self._numbers(one) for one in answer]
        return self._number(answer)

    def _needs_results(self, call: ResultCall[Any], own: int = 0) -> None:
        """Raise ConfigError if the call uses a result that is not stored, except that of number `own`."""
        for used in call.uses:
            if isinstance(used, Node) and used.number != own and used.number not in self._kept:
                raise ConfigError(f"{call.task!r} uses the result of {used.task!r}, whose task has keep_result=False")

    def __repr__(self) -> str:
        return f"<Flow of {len(self._jobs)} jobs>"


def new_run(flow: Flow) -> tuple[FlowRun, Callable[[dict[str, str]], Protocol[None]]]:
    """Return the handle of a new run of a flow, and the protocol that enqueues it, with headers for its jobs."""
    return flow._new_run()  # noqa: SLF001 - for a flow that is enqueued later, or after others


def _sealed(payloads: Payloads, run: FlowRun, number: int, job: FlowJob) -> FlowJob:
    """Return a job, and its compensation, encrypted or signed."""
    id = node_id(run.id, number)
    undo = payloads.seal_call(job.undo_queue or run.queue, f"{id}u", job.undo) if job.undo else job.undo
    return job._replace(record=payloads.seal_call(job.queue or run.queue, id, job.record), undo=undo)


def _policy(given: object) -> Policy:
    return one_of(given, "on_failure", get_args(Policy))


def _made(step: Any, last: Any) -> ResultCall[Any]:
    """Return the call that a task, or a function, makes of the previous result."""
    call = step.call(last) if isinstance(step, Task | RemoteTask) else step(last) if callable(step) else step
    if not isinstance(call, ResultCall):
        raise ConfigError(
            f"the next step must be a task, a call of one, or a function that returns a call, not {step!r:.60}"
        )
    return call


def _several(given: ResultRef | Iterable[ResultRef]) -> Iterable[ResultRef]:
    return given if isinstance(given, Iterable) else [given]


def _nodes(value: Any) -> list[ResultRef]:
    """All nodes in a node or in nested lists of them."""
    if isinstance(value, list | tuple):
        return [node for one in value for node in _nodes(one)]
    return [value]
