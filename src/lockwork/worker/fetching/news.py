"""What an event-loop task waits for, unless there is news first."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class News:
    """Ends one task's waiting early."""

    def __init__(self) -> None:
        self._news: asyncio.Future[None] | None = None

    def tell(self) -> None:
        """There is news: whoever waits now does not go on waiting."""
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    async def unless(self, waiting: Coroutine[Any, Any, T] | None = None) -> T | None:
        """Wait for something, or without end, but no longer than until there is news; then the answer is None."""
        news = self._news = asyncio.get_running_loop().create_future()
        if waiting is None:
            await news
            return None
        task = asyncio.ensure_future(waiting)
        try:
            await asyncio.wait({task, news}, return_when=asyncio.FIRST_COMPLETED)
            return task.result() if task.done() else None
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
