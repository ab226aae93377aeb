"""The methods of Lockwork that make flows, and find one again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, overload

from lockwork.config import Config
from lockwork.flows.flow import Flow, Next
from lockwork.flows.runs import FlowRun
from lockwork.protocol.keys import QueueKeys, checked
from lockwork.protocol.queues.flows import Policy
from lockwork.runtime.runtime import Runtime
from lockwork.tasks.call import ResultCall
from lockwork.tasks.registry import Registry


class Flows:
    """Part of Lockwork: plans of jobs that wait for each other."""

    runtime: Runtime
    config: Config
    registry: Registry

    @overload
    def flow(self, *, on_failure: Policy = "fail") -> Flow: ...
    @overload
    def flow(self, *, id: str, queue: str = "default") -> FlowRun: ...

    def flow(self, *, on_failure: Policy = "fail", id: str | None = None, queue: str = "default") -> Flow | FlowRun:
        """Make an empty flow, or with `id` find an enqueued one again.

        `on_failure` ("fail", "continue" or "compensate") is the policy of each job that sets none of its own: see
        `Flow.add`. `id` and `queue` are those of the enqueued flow, as `FlowRun` has them.
        """
        errors = self.registry.context.errors
        if id is None:
            return Flow(self.runtime, self.config, errors, on_failure)
        name = self.config.partitions.single(queue, "a flow")
        return FlowRun(self.runtime, QueueKeys(self.config.prefix, name), name, checked(id, "a flow's id"), errors)

    def chain(self, first: ResultCall[Any], *steps: Next[Any, Any], on_failure: Policy = "fail") -> Flow:
        """A flow of calls of which each waits for the one before: see `Flow.chain`. Its result is the last one's."""
        flow = self.flow(on_failure=on_failure)
        return flow.returning(flow.chain(first, *steps))

    def group(self, calls: Iterable[ResultCall[Any]], *, on_failure: Policy = "fail") -> Flow:
        """A flow of calls that wait for nothing; its result is the list of theirs, [] if there are none."""
        flow = self.flow(on_failure=on_failure)
        return flow.returning(flow.group(calls))

    def chord(self, calls: Iterable[ResultCall[Any]], callback: Next[Any, Any], *, on_failure: Policy = "fail") -> Flow:
        """A flow of calls, and a job that gets the list of their results; its result is that job's."""
        flow = self.flow(on_failure=on_failure)
        return flow.returning(flow.chord(calls, callback))
