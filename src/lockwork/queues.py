"""A queue as its operators see it: how many jobs are where, which wait, who works, and what failed for good."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from lockwork.config import Config
from lockwork.dead import DeadSet, positive
from lockwork.durations import Duration
from lockwork.errors import ConfigError
from lockwork.ids import new_id
from lockwork.locks.grant import OnLost
from lockwork.locks.queuelock import QueueLock
from lockwork.protocol import jobs as protocol
from lockwork.protocol import waiting
from lockwork.protocol.effects import Protocol
from lockwork.protocol.jobs import QueueStatus, WorkerInfo
from lockwork.protocol.keys import QueueKeys, checked_queue
from lockwork.protocol.waiting import WaitingJob
from lockwork.runtime.runtime import Runtime


class Queue:
    """A handle to one named queue."""

    def __init__(self, runtime: Runtime, config: Config, name: str) -> None:
        self.name: str = checked_queue(name)
        self._runtime = runtime
        self._config = config
        self._keys = QueueKeys(config.prefix, name)
        self._window_ms = int(config.result_ttl * 1000)

    @property
    def dead(self) -> DeadSet:
        """The jobs that failed for good."""
        return DeadSet(self._runtime, self._keys, self.name)

    def lock(
        self,
        name: str,
        *,
        wait: Duration | None = None,
        lease: Duration | None = None,
        on_lost: OnLost | None = None,
        at_least: Duration | None = None,
        replicas: int = 0,
        tags: Sequence[str] = (),
    ) -> QueueLock:
        """A lock that lives with this queue: `grant.release_and_enqueue(task.call(...))` is one step.

        Otherwise it is what `lw.lock` gives, with the same options, but of its own name: it does not exclude that one.
        """
        return QueueLock(
            self._runtime,
            self._config,
            self.name,
            name,
            wait=wait,
            lease=lease,
            on_lost=on_lost,
            tags=tags,
            at_least=at_least,
            replicas=replicas,
        )

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

    def peek(
        self, limit: int = 20, *, place: Literal["ready", "scheduled"] = "ready", skip: int = 0
    ) -> list[WaitingJob]:
        """Read `limit` jobs behind the first `skip`: ready ones as they will run, or scheduled ones by due time."""
        return self._runtime.run(self._peek(limit, place, skip))

    async def apeek(
        self, limit: int = 20, *, place: Literal["ready", "scheduled"] = "ready", skip: int = 0
    ) -> list[WaitingJob]:
        """The same for a task."""
        return await self._runtime.arun(self._peek(limit, place, skip))

    def clear(self) -> int:
        """Take away all jobs that wait, ready or scheduled, and return how many; what runs or is dead is left.

        It is done in steps, so that the server never stops for it. Who waits for such a job's result gets JobFailed.
        """
        return self._runtime.run(waiting.clear(self._keys, new_id(), self._window_ms))

    async def aclear(self) -> int:
        """The same for a task."""
        return await self._runtime.arun(waiting.clear(self._keys, new_id(), self._window_ms))

    def _peek(self, limit: int, place: str, skip: int) -> Protocol[list[WaitingJob]]:
        if place not in ("ready", "scheduled"):
            raise ConfigError(f"place is 'ready' or 'scheduled', not {place!r}")
        if isinstance(skip, bool) or not isinstance(skip, int) or skip < 0:
            raise ConfigError(f"skip must be a number of jobs, 0 or more, not {skip!r}")
        return waiting.peek(self._keys, place, skip, positive(limit, "limit"))

    def __repr__(self) -> str:
        return f"<Queue {self.name!r}>"
