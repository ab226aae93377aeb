"""Finds the ends of tracked jobs that no worker has reported.

Such a job ended while it waited, its process died, or the worker that settled it died.
"""

from __future__ import annotations

import asyncio
from collections.abc import Container

from lockwork.errors import LockworkError
from lockwork.jobs.current import QueueContext
from lockwork.logs import Log
from lockwork.protocol.messages import Hints
from lockwork.protocol.queue import ends
from lockwork.runtime.async_driver import AsyncDriver
from lockwork.worker.ipc.messages import KilledJob, UnreportedEnd

log: Log = Log("lockwork.worker")


class EndReports:
    """Reads the unreported ends of one queue, and passes those of observed tasks to the hook listener."""

    def __init__(
        self,
        driver: AsyncDriver,
        queue_context: QueueContext,
        channel: str,
        observed: Container[str],
        jobs: asyncio.Queue[KilledJob | UnreportedEnd],
    ) -> None:
        self._driver = driver
        self._queue_context = queue_context
        self._channel = channel
        self._observed = observed
        self._jobs = jobs

    async def run(self) -> None:
        """Look now, after each message, and every few seconds because messages may be lost; until cancelled."""
        hints = Hints()
        while True:
            await self.look()
            await self._jobs.join()
            await self._driver.run(ends.hear(self._queue_context.keys, hints))

    async def look(self) -> None:
        """List the ends once."""
        queue = self._queue_context
        try:
            unreported = await self._driver.run(ends.unreported(queue.keys, self._channel))
        except LockworkError as error:
            log.warning("the ends of jobs that this worker has to report cannot be read: %s", error)
            return
        for id, task in unreported:
            if task in self._observed:
                self._jobs.put_nowait(UnreportedEnd(queue.queue, id, task))
