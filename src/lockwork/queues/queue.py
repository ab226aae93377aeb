"""The handle of a queue: its status, workers and dead jobs; pause, limit, drain or clear it; its locks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Literal, TypeVar, Unpack

from lockwork import words
from lockwork.config import Config
from lockwork.durations import Duration, in_milliseconds, seconds
from lockwork.errors import ConfigError, WaitTimeout
from lockwork.failures import Errors
from lockwork.ids import new_id
from lockwork.locks.grant import OnLost
from lockwork.protocol.effects import Argument, Clock, Protocol, concurrently
from lockwork.protocol.keys import QueueKeys, checked, checked_queue
from lockwork.protocol.queue import browse, task_limits
from lockwork.protocol.queue import limits as rules
from lockwork.protocol.queue import status as queue_status
from lockwork.protocol.queue.browse import WaitingJob
from lockwork.protocol.queue.limits import QueueRules
from lockwork.protocol.queue.priority import rank
from lockwork.protocol.queue.status import QueueStatus, WorkerInfo
from lockwork.protocol.queue.task_limits import TaskLimitState
from lockwork.queues.combining import combined_rules, combined_status, combined_workers
from lockwork.queues.dead import DeadSet
from lockwork.queues.limits import MOST, LimitSettings, QueueLimits, changes
from lockwork.queues.queue_lock import QueueLock
from lockwork.runtime.runtime import Runtime
from lockwork.validation import one_of, whole

T = TypeVar("T")


class Queue:
    """A handle to one named queue, which has one partition or more.

    Its methods read and change partitions one after the other, so combined figures are not an atomic snapshot.
    """

    def __init__(self, runtime: Runtime, config: Config, name: str, errors: Errors | None = None) -> None:
        self.name: str = checked_queue(name)
        self._errors = errors
        self._runtime = runtime
        self._config = config
        self._partitions = [QueueKeys(config.prefix, each) for each in config.partitions.names(name)]
        self._window_ms = in_milliseconds(config.result_ttl)

    @property
    def partitions(self) -> list[Queue]:
        """The queue's partitions, each a separate queue; a queue without partitions is its own only partition."""
        return [Queue(self._runtime, self._config, each.name, self._errors) for each in self._partitions]

    @property
    def dead(self) -> DeadSet:
        """The jobs that failed for good."""
        return DeadSet(self._runtime, self._partitions, self.name)

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
        """A lock that belongs to this queue: `grant.release_and_enqueue(task.call(...))` is one atomic step.

        It takes the options of `lw.lock`. It does not exclude an `lw.lock` of the same name. If the queue has
        partitions, the lock's name decides its partition.
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
        """Async version of `status`."""
        return (await self._runtime.arun(self._status()))[0]

    def workers(self) -> list[WorkerInfo]:
        """List the worker processes that hold a lease on this queue."""
        return self._runtime.run(self._status())[1]

    async def aworkers(self) -> list[WorkerInfo]:
        """Async version of `workers`."""
        return (await self._runtime.arun(self._status()))[1]

    def peek(
        self, limit: int = 20, *, place: Literal["ready", "scheduled"] = "ready", skip: int = 0
    ) -> list[WaitingJob]:
        """Read `limit` jobs after the first `skip`: ready ones in run order, or scheduled ones by due time."""
        return self._runtime.run(self._peek(limit, place, skip))

    async def apeek(
        self, limit: int = 20, *, place: Literal["ready", "scheduled"] = "ready", skip: int = 0
    ) -> list[WaitingJob]:
        """Async version of `peek`."""
        return await self._runtime.arun(self._peek(limit, place, skip))

    def clear(self) -> int:
        """Delete all waiting jobs, ready or scheduled, and return their number; running and dead jobs remain.

        It works in steps, so that it never blocks the server. A caller that waits for such a job's result gets
        JobFailed.
        """
        return self._runtime.run(self._clear())

    async def aclear(self) -> int:
        """Async version of `clear`."""
        return await self._runtime.arun(self._clear())

    def pause(self) -> None:
        """Let no worker start a job of this queue until `resume`; running jobs continue, and jobs can be enqueued."""
        self._runtime.run(self._change({"paused": 1}))

    async def apause(self) -> None:
        """Async version of `pause`."""
        await self._runtime.arun(self._change({"paused": 1}))

    def resume(self) -> None:
        """Let the workers start jobs again, at once."""
        self._runtime.run(self._change({"paused": ""}))

    async def aresume(self) -> None:
        """Async version of `resume`."""
        await self._runtime.arun(self._change({"paused": ""}))

    def limit(self, **limits: Unpack[LimitSettings]) -> QueueLimits:
        """Set limits for all workers at once (see LimitSettings), or remove them with None; returns the current limits.

        Raises ConfigError for an invalid limit, and for any limit except size=0 of a queue with partitions: limit each
        partition.
        """
        return QueueLimits.of(self._runtime.run(self._change(changes(limits))))

    async def alimit(self, **limits: Unpack[LimitSettings]) -> QueueLimits:
        """Async version of `limit`."""
        return QueueLimits.of(await self._runtime.arun(self._change(changes(limits))))

    def limits(self) -> QueueLimits:
        """Read the current limits."""
        return QueueLimits.of(self._runtime.run(self._rules()))

    async def alimits(self) -> QueueLimits:
        """Async version of `limits`."""
        return QueueLimits.of(await self._runtime.arun(self._rules()))

    def task_limits(self) -> list[TaskLimitState]:
        """Read the tasks with limits over all workers: the use of each limit, and paused tasks; of each partition."""
        return self._runtime.run(self._task_limits())

    async def atask_limits(self) -> list[TaskLimitState]:
        """Async version of `task_limits`."""
        return await self._runtime.arun(self._task_limits())

    def resume_task(self, task: str) -> bool:
        """End the pause of a task by its circuit breaker; return True if it was paused."""
        return self._runtime.run(self._resume_task(task))

    async def aresume_task(self, task: str) -> bool:
        """Async version of `resume_task`."""
        return await self._runtime.arun(self._resume_task(task))

    def drain(self, timeout: Duration | None = None, *, delayed: bool = False) -> None:
        """Wait until no job is ready or running; with `delayed`, also until no job is scheduled or waits for its retry.

        It changes nothing; call `limit(size=0)` first to refuse new jobs. Raises WaitTimeout after `timeout`.
        """
        self._runtime.run(self._drain(_patience(timeout), delayed))

    async def adrain(self, timeout: Duration | None = None, *, delayed: bool = False) -> None:
        """Async version of `drain`."""
        await self._runtime.arun(self._drain(_patience(timeout), delayed))

    def _each(self, ask: Callable[[QueueKeys], Protocol[T]]) -> Protocol[list[T]]:
        """Ask the partitions side by side; returns their answers."""
        return (yield from concurrently([ask(partition) for partition in self._partitions]))

    def _status(self) -> Protocol[tuple[QueueStatus, list[WorkerInfo]]]:
        statuses = yield from queue_status.statuses(self._partitions)
        status = combined_status([status for status, _ in statuses])
        return status, combined_workers([worker for _, workers in statuses for worker in workers])

    def _clear(self) -> Protocol[int]:
        return sum((yield from self._each(lambda keys: browse.clear(keys, new_id(), self._window_ms))))

    def _change(self, changed: dict[str, Argument]) -> Protocol[QueueRules]:
        for name, value in changed.items():
            if len(self._partitions) > 1 and name != "paused" and value != "" and (name, value) != ("size", 0):
                raise ConfigError(
                    f"queue {self.name!r} has {len(self._partitions)} partitions, and no server counts for all of "
                    f"them: set {name} for each, lw.queue({self._partitions[0].name!r}).limit({name}=...), "
                    "or limit groups"
                )
        return combined_rules((yield from self._each(lambda keys: rules.change(keys, changed))))

    def _rules(self) -> Protocol[QueueRules]:
        return combined_rules((yield from self._each(rules.rules)))

    def _task_limits(self) -> Protocol[list[TaskLimitState]]:
        return [state for states in (yield from self._each(task_limits.states)) for state in states]

    def _resume_task(self, task: str) -> Protocol[bool]:
        checked(task, "a task's name")
        return any((yield from self._each(lambda keys: task_limits.resume(keys, task))))

    def _drain(self, limit: float | None, delayed: bool) -> Protocol[bool]:
        """Wait for one partition after the other; repeat until a round did not have to wait for any partition.

        A job may enqueue jobs in any partition. Returns True if the first round did not have to wait.
        """
        channel = self._runtime.channel
        if len(self._partitions) == 1:
            return (yield from rules.drain(self._partitions[0], channel, limit, delayed=delayed))
        began = yield Clock()
        at_once = True
        while True:
            waited = False
            for partition in self._partitions:
                remaining = None if limit is None else max(0.0, limit - ((yield Clock()) - began))
                try:
                    waited |= not (yield from rules.drain(partition, channel, remaining, delayed=delayed))
                except WaitTimeout as error:
                    raise WaitTimeout(
                        f"queue {self.name!r} was not drained within {words.exact(limit)}; of its partitions, {error}"
                    ) from None
            if not waited:
                return at_once
            at_once = False

    def _peek(self, limit: int, place: str, skip: int) -> Protocol[list[WaitingJob]]:
        one_of(place, "place", ("ready", "scheduled"))
        return self._peeked(place, whole(skip, "skip", 0, MOST), whole(limit, "limit", 1, MOST))

    def _peeked(self, place: str, skip: int, most: int) -> Protocol[list[WaitingJob]]:
        if len(self._partitions) == 1:
            return (yield from browse.peek(self._partitions[0], place, skip, most))
        peeked = yield from self._each(lambda keys: browse.peek(keys, place, 0, skip + most))
        if place == "scheduled":
            jobs = sorted((job for some in peeked for job in some), key=lambda job: job.due_in or 0.0)
        else:
            jobs = [job for row in zip_longest(*peeked) for job in row if job is not None]
            jobs.sort(key=lambda job: rank(job.call.priority))
        return jobs[skip : skip + most]

    def __repr__(self) -> str:
        count = len(self._partitions)
        return f"<Queue {self.name!r} of {count} partitions>" if count > 1 else f"<Queue {self.name!r}>"


def _patience(timeout: Duration | None) -> float | None:
    return None if timeout is None else seconds(timeout, "timeout", zero=True)
