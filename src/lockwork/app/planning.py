"""The methods of `Lockwork` for flows and schedules."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Unpack, overload

from lockwork.app.state import AppState
from lockwork.errors import ConfigError
from lockwork.flows.flow import Flow, Next
from lockwork.flows.runs import FlowPage, FlowRun, page
from lockwork.protocol.effects import Protocol, concurrently
from lockwork.protocol.keys import QueueKeys, checked, checked_queue
from lockwork.protocol.queues import browse, flow_graph
from lockwork.protocol.queues import schedules as protocol
from lockwork.protocol.queues.flows import Policy
from lockwork.queues.limits import MOST
from lockwork.schedules.options import ScheduleSettings, checked_schedule
from lockwork.schedules.schedule import Schedule, ScheduleStatus, checked_count, status
from lockwork.tasks.call import ResultCall, TaskCall
from lockwork.validation import whole


class PlanningMethods(AppState):
    """Flows and schedules."""

    @overload
    def flow(self, *, on_failure: Policy = "fail") -> Flow: ...
    @overload
    def flow(self, *, id: str, queue: str = "default") -> FlowRun: ...

    def flow(self, *, on_failure: Policy = "fail", id: str | None = None, queue: str = "default") -> Flow | FlowRun:
        """Create an empty flow, or with `id` return the handle of an enqueued one.

        `on_failure` ("fail", "continue" or "compensate") is the default policy of its jobs: see `Flow.add`. `id` and
        `queue` are those of the enqueued flow, as `FlowRun` has them.
        """
        if id is None:
            return Flow(self.runtime, self.config, self.registry.context, on_failure)
        errors = self.registry.context.errors
        name = self.config.partitions.single(queue, "a flow")
        return FlowRun(self.runtime, QueueKeys(self.config.prefix, name), name, checked(id, "a flow's id"), errors)

    def flows(self, queue: str | None = None, *, limit: int = 50, budget: int = 100_000) -> FlowPage:
        """List the newest `limit` flows of a queue, or of all queues on the server.

        Flows have no index, so it reads up to `budget` stored entries of each queue, a thousand at a time.
        """
        return self.runtime.run(self._flows(queue, limit, budget))

    async def aflows(self, queue: str | None = None, *, limit: int = 50, budget: int = 100_000) -> FlowPage:
        """Async version of `flows`."""
        return await self.runtime.arun(self._flows(queue, limit, budget))

    def chain(self, first: ResultCall[Any], *steps: Next[Any, Any], on_failure: Policy = "fail") -> Flow:
        """A flow of calls that each wait for the previous one: see `Flow.chain`. Its result is the last one's."""
        flow = self.flow(on_failure=on_failure)
        return flow.returning(flow.chain(first, *steps))

    def group(self, calls: Iterable[ResultCall[Any]], *, on_failure: Policy = "fail") -> Flow:
        """A flow of independent calls; its result is the list of their results, [] without calls."""
        flow = self.flow(on_failure=on_failure)
        return flow.returning(flow.group(calls))

    def chord(self, calls: Iterable[ResultCall[Any]], callback: Next[Any, Any], *, on_failure: Policy = "fail") -> Flow:
        """A flow of calls, and a job that gets the list of their results; its result is the result of that job."""
        flow = self.flow(on_failure=on_failure)
        return flow.returning(flow.chord(calls, callback))

    @overload
    def schedule(self, call: TaskCall, /, *, name: str, **options: Unpack[ScheduleSettings]) -> Schedule: ...
    @overload
    def schedule(self, name: str, /, *, queue: str = "default") -> Schedule: ...

    def schedule(self, what: TaskCall | str, /, **options: Any) -> Schedule:
        """Enqueue a call, such as `send.call(42)`, on a schedule: `cron="0 9 * * mon-fri", tz=...` or `every="10m"`.

        Each slot is enqueued once in the whole cluster, by the first worker of the queue that has this line in its
        code. For the options see `cron` to `overlap` of `lw.task`. With the name of a schedule instead of a
        call, return the handle of a schedule that was declared elsewhere; a task's own schedule has the task's name.
        Raises ConfigError.
        """
        if isinstance(what, TaskCall):
            name = options.pop("name", None)
            return self._schedule(name, self.plans.declare(what, name, options))
        if isinstance(what, str):
            queue = options.pop("queue", "default")
            if options:
                shown = ", ".join([f"name={what!r}", *(f"{option}=..." for option in options if option != "name")])
                raise ConfigError(
                    f"lw.schedule({what!r}) returns an existing schedule, and takes only queue=. To create one, pass "
                    f"a call of a task, such as lw.schedule(send.call(42), {shown})"
                )
            return self._named(what, queue)
        raise ConfigError(
            f"a schedule needs a call of a task, such as send.call(42), or a schedule's name, not {what!r:.60}"
        )

    def schedules(self, queue: str | None = None, *, count: int = 1) -> list[ScheduleStatus]:
        """List the schedules of running workers, each with its next `count` slots.

        `queue` selects one queue; without it, all queues for which this app has tasks.
        """
        return self.runtime.run(self._listed(queue, count))

    async def aschedules(self, queue: str | None = None, *, count: int = 1) -> list[ScheduleStatus]:
        """Async version of `schedules`."""
        return await self.runtime.arun(self._listed(queue, count))

    def _flows(self, queue: str | None, limit: int, budget: int) -> Protocol[FlowPage]:
        prefix, most = self.config.prefix, whole(limit, "limit", 1, MOST)
        looked = whole(budget, "budget", 1, MOST)
        if queue is None:
            names = yield from browse.find(prefix)
        else:
            names = self.config.partitions.names(checked_queue(queue))
        found = yield from concurrently([flow_graph.find(QueueKeys(prefix, name), looked) for name in names])
        return page([(name, *each) for name, each in zip(names, found, strict=True)], most)

    def _named(self, name: str, queue: str = "default") -> Schedule:
        queue, name = checked_queue(queue), checked_schedule(name)
        return self._schedule(name, self.plans.partition(queue, name))

    def _schedule(self, name: str, partition: str) -> Schedule:
        return Schedule(self.runtime, self.config.prefix, name, partition, self.registry.context.errors)

    def _listed(self, queue: str | None, count: int) -> Protocol[list[ScheduleStatus]]:
        slots = checked_count(count)
        queues = self.registry.queues() if queue is None else [checked_queue(queue)]
        names = [name for one in queues for name in self.config.partitions.names(one)]
        found = yield from concurrently([protocol.listed(QueueKeys(self.config.prefix, name)) for name in names])
        pages = zip(names, found, strict=True)
        return [status(name, row, now, slots) for name, (now, known) in pages for row in known]
