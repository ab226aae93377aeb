"""Jobs that tasks of one event loop enqueue at about the same time travel together."""

from __future__ import annotations

import asyncio
import threading

from lockwork.errors import JobNotReplicated, QueueFull
from lockwork.protocol import pushing as protocol
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.pushing import NewJob
from lockwork.runtime.runtime import Runtime


class Gathering:
    """Enqueues single jobs of one queue: the first at once, those that come while it is under way in one call."""

    def __init__(self, runtime: Runtime, keys: QueueKeys) -> None:
        self.runtime: Runtime = runtime
        self.keys: QueueKeys = keys
        self._here = threading.local()

    async def push(self, job: NewJob, replicas: int = 0) -> None:
        """Enqueue a job; raises what `protocol.push` raises. Cancelled, it may be enqueued all the same."""
        loop = asyncio.get_running_loop()
        place = f"crowd{replicas}" if replicas else "crowd"
        crowd: _Crowd | None = getattr(self._here, place, None)
        if crowd is None or crowd.loop is not loop:
            crowd = _Crowd(self.runtime, self.keys, replicas, loop)
            setattr(self._here, place, crowd)
        if crowd.under_way:
            await crowd.join(job)
        else:
            await crowd.go([job])


class _Crowd:
    """Who enqueues on one event loop, and waits for so many replicas."""

    def __init__(self, runtime: Runtime, keys: QueueKeys, replicas: int, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.under_way = 0
        self._runtime = runtime
        self._keys = keys
        self._replicas = replicas
        self._waiting: list[tuple[NewJob, asyncio.Future[None]]] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def go(self, jobs: list[NewJob]) -> None:
        self.under_way += 1
        try:
            await self._runtime.arun(protocol.push(self._keys, jobs, self._replicas))
        finally:
            self.under_way -= 1

    def join(self, job: NewJob) -> asyncio.Future[None]:
        future: asyncio.Future[None] = self.loop.create_future()
        self._waiting.append((job, future))
        if len(self._waiting) == 1:
            self.loop.call_soon(self._leave)  # the tasks that are ready now come along
        return future

    def _leave(self) -> None:
        waiting, self._waiting = self._waiting, []
        task = self.loop.create_task(self._together(waiting), name="lockwork-enqueue")
        self._tasks.add(task)

        def arrived(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            error = None if task.cancelled() else task.exception()
            for job, future in waiting:
                if future.done():
                    continue  # cancelled meanwhile
                if task.cancelled():
                    future.cancel()
                elif isinstance(error, JobNotReplicated):
                    _tell(job, future, error)
                elif error is not None:
                    future.set_exception(error)
                else:
                    future.set_result(None)

        task.add_done_callback(arrived)

    async def _together(self, waiting: list[tuple[NewJob, asyncio.Future[None]]]) -> None:
        """Enqueue them all, or, when the queue has room for some only, those who came first."""
        at = 0
        while at < len(waiting):
            try:
                await self.go([job for job, _ in waiting[at:]])
            except QueueFull as full:
                at += full.enqueued
                room = at + max(0, full.limit - full.waiting)
                for _, future in waiting[room:]:
                    if not future.done():
                        future.set_exception(full)
                waiting = waiting[:room]
            else:
                return


def _tell(job: NewJob, future: asyncio.Future[None], error: JobNotReplicated) -> None:
    """Each hears of its own job only."""
    if job.id in error.ids:
        future.set_exception(JobNotReplicated(str(error), (job.id,)))
    else:
        future.set_result(None)
