"""Jobs that asyncio tasks of one event loop enqueue at about the same time are sent in one call."""

from __future__ import annotations

import threading

from lockwork.errors import JobNotReplicated, QueueFull
from lockwork.lazy import asyncio
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import enqueue as enqueue_protocol
from lockwork.protocol.queue.enqueue import NewJob
from lockwork.runtime.runtime import Runtime

_ENOUGH = 16
"""A batch of this many jobs is sent at once, although more may come in the same turn of the loop."""
_AT_ONCE = 3
"""With this many calls under way, a full batch waits, too."""


class EnqueueBatcher:
    """Enqueues single jobs of one queue: the first at once, the jobs that come during that call in one more call."""

    def __init__(self, runtime: Runtime, keys: QueueKeys) -> None:
        self.runtime: Runtime = runtime
        self.keys: QueueKeys = keys
        self._here = threading.local()

    async def push(self, job: NewJob, replicas: int = 0) -> None:
        """Enqueue a job; raises what `enqueue_protocol.push` raises.

        If the call is cancelled, the job may still be enqueued.
        """
        loop = asyncio.get_running_loop()
        name = f"batch{replicas}" if replicas else "batch"
        batch: _OpenBatch | None = getattr(self._here, name, None)
        if batch is None or batch.loop is not loop:
            batch = _OpenBatch(self.runtime, self.keys, replicas, loop)
            setattr(self._here, name, batch)
        if batch.under_way or batch.waiting:
            await batch.join(job)
        else:
            await batch.send(job)


class _OpenBatch:
    """The jobs that are enqueued on one event loop and wait for the same number of replicas."""

    def __init__(self, runtime: Runtime, keys: QueueKeys, replicas: int, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.under_way = 0
        self.waiting: list[tuple[NewJob, asyncio.Future[None]]] = []
        """They are sent before later jobs, even if the call that they waited for has ended."""
        self._runtime = runtime
        self._keys = keys
        self._replicas = replicas
        self._tasks: set[asyncio.Task[int]] = set()

    async def send(self, job: NewJob) -> None:
        self.under_way += 1
        try:
            await self._runtime.arun(enqueue_protocol.push(self._keys, [job], replicas=self._replicas))
        finally:
            self.under_way -= 1

    def join(self, job: NewJob) -> asyncio.Future[None]:
        future: asyncio.Future[None] = self.loop.create_future()
        self.waiting.append((job, future))
        if len(self.waiting) == 1:
            self.loop.call_soon(self._flush)  # asyncio tasks that are ready now may add theirs
        elif len(self.waiting) == _ENOUGH and self.under_way < _AT_ONCE:
            self._flush()  # the server works on these while other asyncio tasks make theirs
        return future

    def _flush(self) -> None:
        waiting, self.waiting = self.waiting, []
        if not waiting:
            return
        self.under_way += 1
        pushing = enqueue_protocol.push(self._keys, [job for job, _ in waiting], replicas=self._replicas, partial=True)
        task = self.loop.create_task(self._runtime.arun(pushing), name="lockwork-enqueue")
        self._tasks.add(task)

        def arrived(task: asyncio.Task[int]) -> None:
            self.under_way -= 1
            self._tasks.discard(task)
            error = None if task.cancelled() else task.exception()
            for number, (job, future) in enumerate(waiting):
                if future.done():
                    continue  # its caller was cancelled
                if task.cancelled():
                    future.cancel()
                elif error is not None and (own := _own(error, number, job)) is not None:
                    future.set_exception(own)
                else:
                    future.set_result(None)

        task.add_done_callback(arrived)


def _own(error: BaseException, number: int, job: NewJob) -> BaseException | None:
    """Return the part of the error that concerns the job of that number; None if that job was enqueued."""
    full = error.__cause__ if isinstance(error, JobNotReplicated) else error
    if isinstance(full, QueueFull):
        if number >= full.enqueued:
            return full
        if full is error:
            return None
    if isinstance(error, JobNotReplicated):
        return JobNotReplicated(str(error), (job.id,)) if job.id in error.ids else None
    return error
