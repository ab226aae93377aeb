"""Fetching: leases jobs for free places, and sleeps without polling when there is nothing to do."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

from lockwork.errors import LockworkError
from lockwork.protocol import jobs
from lockwork.protocol.jobs import Batch
from lockwork.protocol.keys import QueueKeys
from lockwork.runtime.aio import AsyncDriver
from lockwork.runtime.sync import backoff
from lockwork.worker.executor import Executor
from lockwork.worker.lanes import Lanes

log: logging.Logger = logging.getLogger("lockwork.worker")

T = TypeVar("T")


class Fetcher:
    """Leases the jobs of one queue for one session."""

    def __init__(
        self,
        driver: AsyncDriver,
        keys: QueueKeys,
        session: str,
        channel: str,
        lanes: Lanes,
        executor: Executor,
        window_ms: int,
    ) -> None:
        self._driver = driver
        self._keys = keys
        self._session = session
        self._channel = channel
        self._lanes = lanes
        self._executor = executor
        self._window_ms = window_ms
        self._stopping = asyncio.Event()
        self._requests = 0

    def stop(self) -> None:
        """Lease nothing more; a call under way is brought to its end, so that no lease is lost sight of."""
        self._stopping.set()

    async def run(self) -> None:
        """Fetch until stopped; raises SessionOver when the server counts this session as dead."""
        while not self._stopping.is_set():
            places = self._lanes.take_now() or await self._until_stopped(self._lanes.take())
            if places is None:
                return
            batch = None
            try:
                batch = await self._lease(places)
            finally:
                self._lanes.put_back(places - (len(batch.jobs) if batch else 0))
            if batch is None:
                return
            if batch.jobs:
                self._lanes.start(batch.jobs, self._executor)
            else:
                await self._until_stopped(self._driver.run(jobs.idle(self._keys, batch)))

    async def _lease(self, places: int) -> Batch | None:
        """Ask until there is an answer; None when stopped before: the supervisor gives back what that leased."""
        self._requests += 1
        failures = 0
        while True:
            asked = jobs.reserve(
                self._keys,
                self._session,
                places,
                f"{self._requests:x}",
                self._channel,
                again=failures > 0,
                window_ms=self._window_ms,
            )
            try:
                return await self._driver.run(asked)
            except LockworkError as error:
                if self._stopping.is_set():
                    return None
                failures += 1
                log.warning("no jobs can be fetched: %s", error)
                await self._until_stopped(asyncio.sleep(backoff(failures)))

    async def _until_stopped(self, waiting: Coroutine[Any, Any, T]) -> T | None:
        """Wait for something that may be given up; None when the fetcher is stopped first."""
        task = asyncio.ensure_future(waiting)
        stopped = asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait({task, stopped}, return_when=asyncio.FIRST_COMPLETED)
            return task.result() if task.done() else None
        finally:
            for unfinished in (task, stopped):
                unfinished.cancel()
            await asyncio.gather(task, stopped, return_exceptions=True)
