"""The open live pages: limited per browser and in total; each holds its place exactly as long as it lasts."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress

from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.types import Message, Receive, Scope, Send

MOST_STREAMS = 100
MOST_OF_BROWSER = 4
"""Maximum per browser: it opens six connections to a host, and without a free one, its next page hangs."""
_SLOWEST = 30.0
"""Time limit in seconds for a client to read a response."""


class Streams:
    """Counts the open streams."""

    def __init__(self) -> None:
        self._open: Counter[str] = Counter()

    def response(self, browser: str, events: AsyncIterator[str]) -> StreamingResponse:
        """Return the response that sends events; without a free place it is a 503, and the page polls instead."""
        return _Stream(self, browser, events)

    @contextmanager
    def place(self, browser: str) -> Iterator[str]:
        """Hold a place of this browser; yields the reason of a refusal, or ""."""
        if self._open.total() >= MOST_STREAMS:
            yield "Too many live pages are open.\n"
            return
        if self._open[browser] >= MOST_OF_BROWSER:
            yield "Too many live pages are open in this browser.\n"
            return
        self._open[browser] += 1
        try:
            yield ""
        finally:
            self._open[browser] -= 1
            self._open += Counter()  # drops browsers without streams


class _Stream(StreamingResponse):
    def __init__(self, streams: Streams, browser: str, events: AsyncIterator[str]) -> None:
        super().__init__(events, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})
        self._streams = streams
        self._browser = browser

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events. Occupies a place only now, because a response may never begin."""

        async def send_in_time(message: Message) -> None:
            async with asyncio.timeout(_SLOWEST):
                await send(message)

        with self._streams.place(self._browser) as refusal:
            if refusal:
                await PlainTextResponse(refusal, 503, {"Retry-After": "10"})(scope, receive, send)
                return
            with suppress(TimeoutError):  # the client has stopped reading
                await super().__call__(scope, receive, send_in_time)
