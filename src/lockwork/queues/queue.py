"""A queue as its operators see it: what is where, who works, what failed for good; and what holds for all of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Unpack

from lockwork.config import Config
from lockwork.durations import Duration, in_milliseconds, seconds
from lockwork.errors import ConfigError
from lockwork.failures import Errors
from lockwork.ids import new_id
from lockwork.locks.grant import OnLost
from lockwork.queues.queue_lock import QueueLock
from lockwork.protocol.effects import Argument, Protocol
from lockwork.protocol.keys import QueueKeys, checked_queue
from lockwork.protocol.queues import limits as rules
from lockwork.protocol.queues import status as queue_status
from lockwork.protocol.queues import browse
from lockwork.protocol.queues.limits import Rules
from lockwork.protocol.queues.status import QueueStatus, WorkerInfo
from lockwork.protocol.queues.browse import WaitingJob
from lockwork.queues.dead import DeadSet, positive
from lockwork.queues.limits import LimitSettings, QueueLimits, changes
from lockwork.runtime.runtime import Runtime


class Queue:
    """A handle to one named queue."""

    def __init__(self, runtime: Runtime, config: Config, name: str, errors: Errors | None = None) -> None:
        self.name: str = checked_queue(name)
        self._errors = errors
        self._runtime = runtime
        self._config = config
        self._keys = QueueKeys(config.prefix, name)
        self._window_ms = in_milliseconds(config.result_ttl)

    @property
    def partitions(self) -> list[Queue]:
        """Its partitions, each a queue of its own; of a queue that has none, the queue itself."""
        return [self]

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
            errors=self._errors,
        )

    def status(self) -> QueueStatus:
        """Count the jobs by place, and read the queue's counters."""
        return self._runtime.run(self._status())[0]

    async def astatus(self) -> QueueStatus:
        """The same for a task."""
        return (await self._runtime.arun(self._status()))[0]

    def workers(self) -> list[WorkerInfo]:
        """List the worker processes that hold a lease on this queue."""
        return self._runtime.run(self._status())[1]

    async def aworkers(self) -> list[WorkerInfo]:
        """The same for a task."""
        return (await self._runtime.arun(self._status()))[1]

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
        return self._runtime.run(self._clear())

    async def aclear(self) -> int:
        """The same for a task."""
        return await self._runtime.arun(self._clear())

    def pause(self) -> None:
        """Let no worker begin a job of this queue until `resume`; what runs goes on, and jobs can be enqueued."""
        self._runtime.run(self._change({"paused": 1}))

    async def apause(self) -> None:
        """The same for a task."""
        await self._runtime.arun(self._change({"paused": 1}))

    def resume(self) -> None:
        """Let the workers go on, at once."""
        self._runtime.run(self._change({"paused": ""}))

    async def aresume(self) -> None:
        """The same for a task."""
        await self._runtime.arun(self._change({"paused": ""}))

    def limit(self, **limits: Unpack[LimitSettings]) -> QueueLimits:
        """Set limits for all workers at once (see LimitSettings), or take them away by None; returns those in force.

        Raises ConfigError.
        """
        return QueueLimits.of(self._runtime.run(self._change(changes(limits))))

    async def alimit(self, **limits: Unpack[LimitSettings]) -> QueueLimits:
        """The same for a task."""
        return QueueLimits.of(await self._runtime.arun(self._change(changes(limits))))

    def limits(self) -> QueueLimits:
        """Read the limits in force."""
        return QueueLimits.of(self._runtime.run(self._rules()))

    async def alimits(self) -> QueueLimits:
        """The same for a task."""
        return QueueLimits.of(await self._runtime.arun(self._rules()))

    def drain(self, timeout: Duration | None = None, *, delayed: bool = False) -> None:
        """Wait until no job waits or runs; with `delayed`, until none is scheduled either, nor waits for its retry.

        It changes nothing: `limit(size=0)` keeps new jobs away meanwhile. Raises WaitTimeout after `timeout`.
        """
        self._runtime.run(self._drain(_patience(timeout), delayed))

    async def adrain(self, timeout: Duration | None = None, *, delayed: bool = False) -> None:
        """The same for a task."""
        await self._runtime.arun(self._drain(_patience(timeout), delayed))

    def _status(self) -> Protocol[tuple[QueueStatus, list[WorkerInfo]]]:
        return queue_status.status(self._keys)

    def _clear(self) -> Protocol[int]:
        return browse.clear(self._keys, new_id(), self._window_ms)

    def _change(self, changed: dict[str, Argument]) -> Protocol[Rules]:
        return rules.change(self._keys, changed)

    def _rules(self) -> Protocol[Rules]:
        return rules.rules(self._keys)

    def _drain(self, limit: float | None, delayed: bool) -> Protocol[bool]:
        return rules.drain(self._keys, self._runtime.channel, limit, delayed=delayed)

    def _peek(self, limit: int, place: str, skip: int) -> Protocol[list[WaitingJob]]:
        if place not in ("ready", "scheduled"):
            raise ConfigError(f"place is 'ready' or 'scheduled', not {place!r}")
        if isinstance(skip, bool) or not isinstance(skip, int) or skip < 0:
            raise ConfigError(f"skip must be a number of jobs, 0 or more, not {skip!r}")
        return self._peeked(place, skip, positive(limit, "limit"))

    def _peeked(self, place: str, skip: int, most: int) -> Protocol[list[WaitingJob]]:
        return browse.peek(self._keys, place, skip, most)

    def __repr__(self) -> str:
        return f"<Queue {self.name!r}>"


def _patience(timeout: Duration | None) -> float | None:
    return None if timeout is None else seconds(timeout, "timeout", zero=True)
