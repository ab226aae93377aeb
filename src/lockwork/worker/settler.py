"""Settling: outcomes gather while a call is under way, and leave together with the next."""

from __future__ import annotations

import asyncio
import logging

from lockwork.errors import LockworkError
from lockwork.protocol import jobs
from lockwork.protocol.jobs import Outcome
from lockwork.protocol.keys import QueueKeys
from lockwork.runtime.aio import AsyncDriver
from lockwork.runtime.sync import backoff

log: logging.Logger = logging.getLogger("lockwork.worker")


class Settler:
    """Settles one queue's outcomes for one session, and outlasts a server that is away."""

    def __init__(self, driver: AsyncDriver, keys: QueueKeys, session: str, window_ms: int) -> None:
        self._driver = driver
        self._keys = keys
        self._session = session
        self._window_ms = window_ms
        self._waiting: list[Outcome] = []
        self._task: asyncio.Task[None] | None = None

    def add(self, outcome: Outcome) -> None:
        """Settle an outcome soon."""
        self._waiting.append(outcome)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="lockwork-settle")

    @property
    def busy(self) -> bool:
        """Whether there are outcomes that may not be on the server yet."""
        return self._task is not None

    async def drained(self) -> None:
        """Wait until everything is settled."""
        while self._task is not None:
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting, []
                settled = await self._settle(batch)
                if not all(settled):
                    for outcome, kept in zip(batch, settled, strict=True):
                        if not kept:
                            log.warning("job %s: the lease was over, its outcome was not written", outcome.id)
        finally:
            self._task = None

    async def _settle(self, batch: list[Outcome]) -> list[bool]:
        """Settle, however long the server is away, read-only or full: an outcome that is dropped would run again."""
        failures = 0
        while True:
            try:
                return await self._driver.run(jobs.settle(self._keys, self._session, batch, self._window_ms))
            except LockworkError as error:
                failures += 1
                log.warning("%d outcomes wait to be settled: %s", len(batch), error)
                await asyncio.sleep(backoff(failures))
