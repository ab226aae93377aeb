"""A job of a flow that is found again, whose queue the caller need not know."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from lockwork.jobs.job import Job, Origin
from lockwork.protocol.effects import Protocol
from lockwork.protocol.flows import flow_graph
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import job_control as control

R = TypeVar("R")
T = TypeVar("T")


class FoundFlowJob(Job[R]):
    """The handle of a job of a flow. If the flow's queue does not know it, the first call reads the job's own queue.

    Until then, `queue` is the flow's queue.
    """

    __slots__ = ("_flow", "_left", "_number")

    def __init__(self, origin: Origin, id: str, flow: str, number: int) -> None:
        super().__init__(origin, id)
        self._flow = flow
        self._number = number
        self._left = True
        """True until it is known which queue has the job."""

    def _at(self, made: Callable[[QueueKeys], Protocol[T]], patience: float | None = None) -> Protocol[T]:  # noqa: ARG002
        found = yield from made(self._from.keys)
        if not self._left or _state(found) not in ("unknown", "gone"):
            return found
        before = self._from
        yield from self._read_queue()
        return found if self._from is before else (yield from made(self._from.keys))

    def _search(self) -> Protocol[None] | None:
        return self._find() if self._left else None

    def _find(self) -> Protocol[None]:
        details = yield from control.inspect(self._from.keys, self.id)
        if details.state == "unknown":
            yield from self._read_queue()
        self._left = False

    def _read_queue(self) -> Protocol[None]:
        home = self._from.keys
        queues = yield from flow_graph.queues(home, self._flow, [self._number])
        self._left = False
        if self._number in queues:
            self._from = self._from._replace(keys=QueueKeys(home.prefix, queues[self._number]))


def _state(found: Any) -> object:
    """Return the state in the result of any call about a job."""
    first = found[0] if isinstance(found, tuple) and not hasattr(found, "state") else found
    return first if isinstance(first, str) else getattr(first, "state", None)
