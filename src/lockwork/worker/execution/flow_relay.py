"""Relays the messages of flows from one queue to others, when a fetch has found some."""

from __future__ import annotations

import asyncio

from lockwork.errors import LockworkError
from lockwork.logs import Log
from lockwork.protocol.flows.relay import relay
from lockwork.protocol.keys import QueueKeys
from lockwork.runtime.async_driver import AsyncDriver
from lockwork.runtime.clock import now
from lockwork.worker.environment import AGAIN

log: Log = Log("lockwork.worker")

_PAUSE = 0.1
"""Seconds until a burst checks again whether another relay has delivered the messages."""
_PAUSES = 50
"""Limit of such pauses in a row: then the burst ends, and a later worker delivers the messages."""


class FlowRelay:
    """Relays the messages of one queue; one run at a time."""

    def __init__(self, driver: AsyncDriver, keys: QueueKeys, window_ms: int) -> None:
        self._driver = driver
        self._keys = keys
        self._window_ms = window_ms
        self._run: asyncio.Task[None] | None = None
        self._again = False
        self._log_after = 0.0
        self._pauses = 0

    def start(self) -> None:
        """Relay the messages, also those that come during a run."""
        if self._run is None or self._run.done():
            self._run = asyncio.create_task(self._relay(), name="lockwork-flow-relay")
        else:
            self._again = True

    def found(self, messages: bool) -> bool:
        """Note if a fetch has found messages, and relay them; return True if a burst has to wait for them."""
        if not messages:
            self._pauses = 0
            return False
        self.start()
        self._pauses += 1
        return self._pauses < _PAUSES

    async def done(self) -> None:
        """Wait for the present run; after some runs in a row that left messages, also for other relays."""
        if self._run is not None:
            await asyncio.wait([self._run])
            if self._pauses > 1:
                await asyncio.sleep(_PAUSE)

    async def cancel(self) -> None:
        """Stop relaying: another worker delivers what is left."""
        if self._run is not None:
            self._run.cancel()
            await asyncio.gather(self._run, return_exceptions=True)

    async def _relay(self) -> None:
        self._again = True
        while self._again:
            self._again = False
            try:
                await self._driver.run(relay(self._keys, self._window_ms, on_error=self._complain))
            except Exception:  # a later fetch tries again
                log.exception("the messages of flows in queue %s cannot be relayed", self._keys.name)
                return

    def _complain(self, queue: str, error: LockworkError) -> None:
        if now() >= self._log_after:
            self._log_after = now() + AGAIN
            log.warning("messages of flows from queue %s wait, because of queue %s: %s", self._keys.name, queue, error)
