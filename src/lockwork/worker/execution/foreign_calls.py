"""Calls that only another worker may run: of a task that is unknown here, or of another version of a known task."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Any

from lockwork.errors import LockworkError, ServerRefused
from lockwork.logs import Log
from lockwork.protocol.keys import is_name
from lockwork.protocol.queue import leases
from lockwork.protocol.queue.leases import Leased, Outcome
from lockwork.runtime.clock import now
from lockwork.runtime.runtime import Runtime
from lockwork.tasks.options import TaskOptions
from lockwork.tasks.registry import Registry
from lockwork.workers import RunningVersions, read_running

log: Log = Log("lockwork.jobs")

_FRESH = 30.0
"""Cache lifetime of announcements, in seconds."""
_AGAIN = 1.0
"""Cache lifetime in seconds if a stale answer would bury a job."""
_LOG_AGAIN = 60.0
_MOST_LOGGED = 1000
"""Maximum number of tasks whose last log time is remembered."""


class ForeignCall(Exception):
    """A call that this worker cannot run; the cause is its `__cause__`.

    version: of its task here, "" if unknown. options: the options for its failure; without them, the job is buried.
    without_key: this worker cannot decrypt the call; the job waits, even if no live worker has the key.
    """

    def __init__(
        self, task: str, version: str, options: TaskOptions | None = None, *, without_key: bool = False
    ) -> None:
        super().__init__(task)
        self.task = task
        self.version = version
        self.options = options
        self.without_key = without_key


class TasksOfApp:
    """Tasks that this process knows, in the form that the server compares with parked jobs."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._versions = ""

    @property
    def names(self) -> str:
        """Return only the names: fingerprints take time, and most queues have no parked jobs."""
        return " ".join(f"{name} ?" for name in self._registry.names())

    @property
    def versions(self) -> str:
        """Return the names with the versions of the tasks."""
        if not self._versions:
            self._versions = self.of(self._registry.names())
        return self._versions

    def of(self, names: Collection[str]) -> str:
        """Return the known tasks among `names`, with versions."""
        tasks = self._registry.names() if names else {}
        return " ".join(f"{name} {tasks[name].version}" for name in names if name in tasks)


class ForeignCalls:
    """Returns the jobs of one queue that another worker may run, uncounted.

    The server parks such a job for an increasing time, and delivers it to a worker that knows its task at once. ttl:
    seconds after its first return until a job is buried if no live worker knows its task, or may have its key.
    """

    def __init__(self, runtime: Runtime, queue: str, ttl: float, give_back: Callable[[Outcome], None]) -> None:
        self._runtime = runtime
        self._queue = queue
        self._ttl = ttl
        self._give_back = give_back
        self._running: RunningVersions | None = None
        self._read_at = 0.0
        self._reading: asyncio.Future[RunningVersions | None] | None = None
        self._logged: dict[str, float] = {}

    async def returned(self, job: Leased, call: ForeignCall) -> bool:
        """Return the job; return False if no other worker will run it."""
        task, version, is_known = call.task, call.version, False
        if not is_name(task):
            return False  # no worker can ever run it
        overdue = (job.fence / 1e6 - job.parked / 1e3 if job.parked else 0.0) >= self._ttl
        if version and call.without_key:
            if overdue and not await self._other_version(task, version):
                return False
        elif version:
            if overdue or not await self._other_version(task, version):
                return False
        elif overdue:
            is_known = await self._known(task)
            if not is_known:
                return False
        self._give_back(leases.parked(job, task, version, known=is_known))
        self._log(job, call)
        return True

    async def _known(self, task: str) -> bool:
        """Return True if a live worker knows the task, or if the announcements cannot be read now."""
        running = await self._read(_AGAIN)
        return running is None or running.known(task, self._queue)

    async def _other_version(self, task: str, version: str) -> bool:
        """Return True if another version of the task is announced, or if the announcements cannot be read now."""
        for age in (_FRESH, _AGAIN):
            running = await self._read(age)
            if running is None or running.versions(task, self._queue) - {version}:
                return True
        return False

    async def _read(self, age: float) -> RunningVersions | None:
        """Read the announcements, unless the cached ones are younger than `age`; None if the server is unreachable."""
        while self._reading is not None:
            await asyncio.wait([self._reading])
        if self._running is not None and now() < self._read_at + age:
            return self._running
        self._reading = asyncio.ensure_future(self._fetch())
        try:
            return await self._reading
        finally:
            self._reading = None

    async def _fetch(self) -> RunningVersions | None:
        try:
            self._running = await self._runtime.arun(read_running(self._runtime.prefix))
        except ServerRefused:
            # a user without permission to read announcements sees only this worker
            self._running = RunningVersions.none()
        except LockworkError as error:
            log.info("the announcements of workers cannot be read: %s", error)
            return None
        self._read_at = now()
        return self._running

    def _log(self, job: Leased, call: ForeignCall) -> None:
        """Log the first such job of a task, then at most one per minute."""
        task = call.task
        if now() < self._logged.get(task, 0.0):
            return
        if len(self._logged) >= _MOST_LOGGED:
            self._logged.clear()
        self._logged[task] = now() + _LOG_AGAIN
        why = "its arguments do not fit the task in this worker" if call.version else "this worker has no such task"
        if call.version and call.without_key:
            why = str(call.__cause__)
        fields: dict[str, Any] = {"job": job.id, "task": task, "queue": self._queue}
        message = "job %s of task %r returns to queue %s, uncounted, for another worker: %s"
        log.warning(message, job.id, task, self._queue, why, extra=fields)
