"""Enqueued flows: their handles and lists."""

from __future__ import annotations

from lockwork.config import Config
from lockwork.failures import Errors
from lockwork.flows.runs import FlowPage, FlowRun, page
from lockwork.protocol.effects import Protocol, concurrently
from lockwork.protocol.flows import flow_graph
from lockwork.protocol.index import index
from lockwork.protocol.keys import QueueKeys, checked, checked_queue
from lockwork.queues.limits import MOST
from lockwork.runtime.runtime import Runtime
from lockwork.validation import whole


class Flows:
    """Finds enqueued flows."""

    def __init__(self, runtime: Runtime, config: Config, errors: Errors) -> None:
        self._runtime = runtime
        self._config = config
        self._errors = errors

    def run(self, id: str, queue: str) -> FlowRun:
        """Return the handle of an enqueued flow; it sends nothing yet."""
        name = self._config.partitions.single(queue, "a flow")
        keys = QueueKeys(self._config.prefix, name)
        return FlowRun(self._runtime, keys, name, checked(id, "a flow's id"), self._errors)

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
