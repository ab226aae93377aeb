"""The receiving end of a shared asyncio connection: hands each reply to the future that waits for it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

import hiredis

from lockwork.runtime.resp import NOTHING, new_reader


class Answers(asyncio.Protocol):
    """Replies come in the order of `pending`; `progress` is called when some came, `ended` when no more will.

    It takes the place of asyncio's streams after the handshake: a reading task would cost a turn of the loop each time.
    """

    def __init__(
        self,
        pending: deque[asyncio.Future[Any]],
        progress: Callable[[], None],
        ended: Callable[[Answers, BaseException | str], None],
    ) -> None:
        self._pending = pending
        self._progress = progress
        self._ended = ended
        self._parser = new_reader()

    def data_received(self, data: bytes) -> None:
        """Take what has come."""
        parser, pending = self._parser, self._pending
        try:
            parser.feed(data)
            while (reply := parser.gets()) is not NOTHING:
                future = pending.popleft()
                if not future.done():
                    future.set_result(reply)
        except (hiredis.HiredisError, IndexError):
            self._ended(self, "what it sent was no answer")
        else:
            self._progress()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing comes any more."""
        self._ended(self, exc or "the server closed it")
