"""A queue as its operators see it: how many jobs are where, and who works."""

from __future__ import annotations

from lockwork.protocol import jobs as protocol
from lockwork.protocol.jobs import QueueStatus, WorkerInfo
from lockwork.protocol.keys import QueueKeys, checked_queue
from lockwork.runtime.runtime import Runtime


class Queue:
    """A handle to one named queue."""

    def __init__(self, runtime: Runtime, prefix: str, name: str) -> None:
        self.name: str = checked_queue(name)
        self._runtime = runtime
        self._keys = QueueKeys(prefix, name)

    def status(self) -> QueueStatus:
        """Count the jobs by place, and read the queue's counters."""
        return self._runtime.run(protocol.status(self._keys))[0]

    async def astatus(self) -> QueueStatus:
        """The same for a task."""
        return (await self._runtime.arun(protocol.status(self._keys)))[0]

    def workers(self) -> list[WorkerInfo]:
        """List the worker processes that hold a lease on this queue."""
        return self._runtime.run(protocol.status(self._keys))[1]

    async def aworkers(self) -> list[WorkerInfo]:
        """The same for a task."""
        return (await self._runtime.arun(protocol.status(self._keys)))[1]

    def __repr__(self) -> str:
        return f"<Queue {self.name!r}>"
