"""Flows: jobs that wait for each other and use each other's results; enqueued as a whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar, cast, get_args
from typing import Protocol as Interface

from msgspec import Struct
from msgspec.structs import replace

from lockwork.config import Config
from lockwork.errors import ConfigError, ServerUnavailable
from lockwork.flows.runs import FlowRun
from lockwork.ids import new_id
from lockwork.jobs.options import with_headers
from lockwork.partitions import Partitions, routing_name
from lockwork.protocol.effects import Protocol
from lockwork.protocol.flows import flows as flows_protocol
from lockwork.protocol.flows.flows import MOST_JOBS, MOST_LINKS, FlowJob, Policy
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.names import shown
from lockwork.runtime.runtime import Runtime
from lockwork.tasks.app_context import AppContext
from lockwork.tasks.call import ResultCall, ResultRef
from lockwork.tasks.middleware import Outgoing
from lockwork.tasks.task import Task
from lockwork.validation import one_of


class FlowPlacement(Struct, frozen=True):
    """The queue and partition of a flow, as far as its calls decide them; all its jobs live there."""

    partitions: Partitions
    queue: str | None = None
    place: str | None = None
    """The partition, once a key or group decides it."""
    decided_by: str = ""

    def with_call(self, call: object) -> FlowPlacement:
        """Return the placement with this call added; raises ConfigError for a call of another queue or partition."""
        if not isinstance(call, ResultCall):
            raise ConfigError(f"a flow consists of calls, such as fetch.call(1), not {call!r:.60}")
        if self.queue is not None and call.queue != self.queue:
            raise ConfigError(
                f"a flow belongs to one queue, because its jobs end and start in one atomic step: {call.task!r} "
                f"belongs to queue {call.queue!r}, and the others to {self.queue!r}; use the same queue for their tasks"
            )
        name = routing_name(call.record) if call.queue in self.partitions else None
        if name is None:
            return replace(self, queue=call.queue)
        place = self.partitions.place(call.queue, name)
        if self.place is not None and place != self.place:
            raise ConfigError(
                "a flow belongs to one partition, because its jobs end and start in one atomic step: the key or group "
                f"{shown(name)!r} of {call.task!r} decides {place!r}, and another one's, "
                f"{shown(self.decided_by)!r}, {self.place!r}; give them the same, or call "
                "task.options(key=None, group=None)"
            )
        return self if self.place is not None else replace(self, queue=call.queue, place=place, decided_by=name)

    def chosen(self) -> str:
        """Return the queue or partition of one run; an empty flow goes to the default queue."""
        return self.place or self.partitions.random(self.queue or "default")


R = TypeVar("R")
S = TypeVar("S")
R_contra = TypeVar("R_contra", contravariant=True)


class NextTask(Interface[R_contra, S]):
    """A task that can be called with one result; its other parameters have defaults."""

    def call(self, result: R_contra, /) -> ResultCall[S]:
        """Return the call that takes the result."""
        ...


Next = NextTask[R, S] | Callable[[R], ResultCall[S]] | ResultCall[S]
"""The next step of a chain: a task that takes the result, a function that makes a call of it, or a call without it."""


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
        self._home = FlowPlacement(config.partitions)
        self._jobs: list[FlowJob] = []
        self._returns: dict[int, Any] = {}
        self._links = 0
        self._used: set[int] = set()
        self._kept: set[int] = set()
        self._answer: Any = None

    def add(
        self,
        call: ResultCall[R],
        *,
        after: ResultRef | Iterable[ResultRef] = (),
        on_failure: Policy | None = None,
        compensate: Next[R, Any] | None = None,
    ) -> Node[R]:
        """Add a call; its job runs when the jobs whose results it uses, and the jobs in `after`, have ended.

        `on_failure` is the effect of its failure: "fail" cancels the jobs that wait for it; "ignore" gives them None as
        its result; "compensate" cancels them and then runs the compensations of the jobs that succeeded, the latest
        first. `compensate`: a call, or a task, that compensates this job. Raises ConfigError.
        """
        number = len(self._jobs) + 1
        policy = self.on_failure if on_failure is None else _policy(on_failure)
        home = self._home.with_call(call)
        if number > MOST_JOBS:
            raise ConfigError(f"a flow has at most {MOST_JOBS:,} jobs: enqueue several flows")
        waits = after if isinstance(after, Iterable) else [after]
        parents = {self._number(node) for node in (*call.uses, *waits)}
        links = self._links + len(parents)
        if links > MOST_LINKS:
            raise ConfigError(
                f"in a flow, jobs wait for jobs at most {MOST_LINKS:,} times: between two large groups, add one job "
                "that waits for the first group, and let the second wait for that job"
            )
        self._needs_results(call)
        node: Node[R] = Node(self, number, call.task, may_fail=policy == "ignore")
        own = number if call.keeps_result else 0
        undo = b""
        if compensate is not None:
            compensation = self._undo(node, compensate, own)
            home = home.with_call(compensation)
            undo = compensation.record
        # nothing below raises: a call that is refused leaves no trace in the plan
        self._home, self._links = home, links
        self._jobs.append(FlowJob(call.record, sorted(parents), call.delay_ms, policy, undo))
        self._returns[number] = call.returns
        self._used |= parents
        if call.keeps_result:
            self._kept.add(number)
        return node

    def chain(self, first: ResultCall[Any] | Any, *steps: Next[Any, Any]) -> Node[Any]:
        """Add calls that each wait for the previous one; return the last node.

        `first` is a call, a node, or a list of nodes. Each step is a task that takes the previous result, a function
        that takes it and returns a call, or a call that does not use it.
        """
        if isinstance(first, ResultCall):
            last: Any = self.add(first)
        elif isinstance(first, Node) or (steps and isinstance(first, list | tuple)):
            self._numbers(first)  # raises for a node of another flow
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

        Raises ConfigError, QueueFull if the queue has no space for all jobs, or ServerUnavailable; then no job runs.
        """
        run = self._run()
        with self._context.middlewares.sending("", run.queue, len(self._jobs)) as outgoing:
            return self._enqueued(run, self._runtime.run(self._push(run, outgoing)))

    async def aenqueue(self) -> FlowRun:
        """Async version of `enqueue`."""
        run = self._run()
        with self._context.middlewares.sending("", run.queue, len(self._jobs)) as outgoing:
            return self._enqueued(run, await self._runtime.arun(self._push(run, outgoing)))

    def _run(self) -> FlowRun:
        if not self._jobs and self._answer is None:  # an empty group has a result: an empty list
            raise ConfigError("the flow is empty: add a call to it, such as flow.add(fetch.call(1))")
        queue = self._home.chosen()
        return FlowRun(
            self._runtime, QueueKeys(self._prefix, queue), queue, new_id(), self._context.errors, self._returns
        )

    def _push(self, run: FlowRun, outgoing: Outgoing) -> Protocol[bool]:
        outgoing.ids = (run.id,)
        jobs = [self._stamped(job, outgoing.headers) for job in self._jobs] if outgoing.headers else self._jobs
        answer = self._answer
        if answer is None:
            ends = [number for number in self._returns if number not in self._used]
            answer = ends[0] if len(ends) == 1 else ends
        keys = QueueKeys(self._prefix, run.queue)
        pushing = flows_protocol.push(keys, run.id, jobs, answer, self._runtime.window_ms)
        return self._context.announcing.after(pushing)

    def _stamped(self, job: FlowJob, headers: dict[str, str]) -> FlowJob:
        """Return the job with the headers of this run; its compensation gets them, too."""
        undo = with_headers(job.undo, headers, self._max_payload) if job.undo else job.undo
        return job._replace(record=with_headers(job.record, headers, self._max_payload), undo=undo)

    def _enqueued(self, run: FlowRun, done: bool) -> FlowRun:
        if not done:
            raise ServerUnavailable("the flow could not be enqueued within 10 minutes, and nothing of it will run")
        return run

    def _next(self, last: Any, step: Any) -> Node[Any]:
        if isinstance(step, ResultCall):
            return self.add(step, after=_nodes(last))
        return self.add(_made(step, last))

    def _undo(self, node: Node[Any], wanted: Any, own: int) -> ResultCall[Any]:
        call = wanted if isinstance(wanted, ResultCall) else _made(wanted, node)
        if call.delay_ms:
            raise ConfigError(f"the compensation {call.task!r} cannot have a delay")
        for used in call.uses:
            self._number(used)
        self._needs_results(call, own)
        return call

    def _number(self, node: ResultRef) -> int:
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


def _policy(given: object) -> Policy:
    return one_of(given, "on_failure", get_args(Policy))


def _made(step: Any, last: Any) -> ResultCall[Any]:
    """Return the call that a task, or a function, makes of the previous result."""
    call = step.call(last) if isinstance(step, Task) else step(last) if callable(step) else step
    if not isinstance(call, ResultCall):
        raise ConfigError(
            f"the next step must be a task, a call of one, or a function that returns a call, not {step!r:.60}"
        )
    return call


def _nodes(value: Any) -> list[ResultRef]:
    """All nodes in a node or in nested lists of them."""
    if isinstance(value, list | tuple):
        return [node for one in value for node in _nodes(one)]
    return [value]
