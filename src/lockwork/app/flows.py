"""Enqueued flows: their handles and lists."""

from __future__ import annotations

from lockwork.config import Config
from lockwork.flows.callbacks import with_callbacks
from lockwork.flows.runs import FlowPage, FlowRun, page
from lockwork.ids import node_of
from lockwork.protocol.effects import Protocol, concurrently
from lockwork.protocol.flows import flow_graph
from lockwork.protocol.index import index
from lockwork.protocol.keys import QueueKeys, checked, checked_queue
from lockwork.queues.limits import MOST
from lockwork.runtime.runtime import Runtime
from lockwork.tasks.app_context import AppContext
from lockwork.validation import whole


class Flows:
    """Finds enqueued flows."""

    def __init__(self, runtime: Runtime, config: Config, context: AppContext) -> None:
        self._runtime = runtime
        self._config = config
        self._errors = context.errors
        context.callback_tasks.register(with_callbacks)

    def run(self, id: str, queue: str) -> FlowRun:
        """Return the handle of an enqueued flow, by its id or that of one of its jobs; it sends nothing yet."""
        name = self._config.partitions.single(queue, "a flow")
        keys, node = QueueKeys(self._config.prefix, name), node_of(checked(id, "a flow's id"))
        return FlowRun(self._runtime, keys, name, id if node is None else node.flow, self._errors)

    def page(self, queue: str | None, limit: int, budget: int) -> Protocol[FlowPage]:
        """Read the newest flows; see `Lockwork.flows`."""
        prefix, most = self._config.prefix, whole(limit, "limit", 1, MOST)
        entries = whole(budget, "budget", 1, MOST)
        if queue is None:
            names = yield from index.queues(prefix)
        else:
            names = self._config.partitions.names(checked_queue(queue))
        flows = yield from concurrently([flow_graph.find(QueueKeys(prefix, name), entries) for name in names])
        return page([(name, *each) for name, each in zip(names, flows, strict=True)], most)
