"""Connections of `lockwork dashboard`: a client that is slow to send its request makes room for others."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

PATIENCE = 10.0
"""Time limit in seconds for a client to send the head of a request."""
MOST_WAITING = 400
"""Maximum connections without a request; a new one ends the oldest of them."""


class _PatientProtocol(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """Adds a time limit for the head of a request to uvicorn's protocol, which alone waits forever."""

    cycle: Any
    transport: Any
    loop: asyncio.AbstractEventLoop
    _waiting: dict[_PatientProtocol, asyncio.TimerHandle] = {}  # noqa: RUF012 - of all connections, the oldest first

    def connection_made(self, transport: Any) -> None:
        """Start waiting for a request."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Stop waiting once the answer to a request has begun."""
        super().data_received(data)
        if self.cycle is None or self.cycle.response_complete:
            self._wait()
        else:
            self._wait_no_more()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._wait_no_more()
        super().connection_lost(exc)

    def _wait(self) -> None:
        if self in self._waiting or self.transport.is_closing():
            return
        if len(self._waiting) >= MOST_WAITING:
            next(iter(self._waiting)).give_up()
        self._waiting[self] = self.loop.call_later(PATIENCE, self.give_up)

    def _wait_no_more(self) -> None:
        if (timer := self._waiting.pop(self, None)) is not None:
            timer.cancel()

    def give_up(self) -> None:
        """End the connection."""
        self._wait_no_more()
        self.transport.abort()


PROTOCOL: type[asyncio.Protocol] = _PatientProtocol
"""The `http` protocol to run uvicorn with."""
