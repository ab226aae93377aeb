"""One queue as a worker's fetcher sees it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.messages import Hints
from lockwork.worker.execution.settler import Settler
from lockwork.worker.execution.slots import Runner

T = TypeVar("T")


class Wakeup:
    """Ends one task's waiting early."""

    def __init__(self) -> None:
        self._news: asyncio.Future[None] | None = None

    def tell(self) -> None:
        """Wake the caller that waits now."""
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


@dataclass(slots=True, eq=False)
class QueueState:
    """A queue, who runs its jobs, and what is known of it."""

    name: str
    keys: QueueKeys
    runner: Runner
    weight: int = 1
    """Of its family as a whole."""
    family: str = ""
    """The queue of which it is a partition, if that was named to the worker as a whole."""
    turn: float = 0.0
    """When it was the first of its family last: the one of the lowest is the next."""
    credit: float = 0.0
    """Places that the queue is owed by its weight."""
    awake: bool = True
    """Whether it may have jobs: an empty queue sleeps until it is woken, or the next job is due."""
    registered: bool = False
    """Whether the server wakes us for it, or has done so."""
    timed: bool = False
    """Whether it sleeps until a job is due that it knows of."""
    owed: bool = False
    """Whether we were woken for it and have not asked yet."""
    passing: asyncio.Task[None] | None = None
    """Passes a wake-up on to another worker; until that is done, the queue is not asked."""
    request: str = ""
    last: int = 0
    """The highest fence of the jobs that came from it."""
    unsure: bool = False
    """Whether the last request was not answered: it may have leased jobs, so it has to be sent again."""
    held: int = 0
    """Places kept for what that request may have leased."""
    failures: int = 0
    complaint: float = 0.0
    """When the next complaint about them is due."""
    hints: Hints = field(default_factory=Hints)
    """How many wake-ups that bring nothing it may follow."""
    settler: Settler | None = None
    sleep: asyncio.Task[None] | None = field(default=None)
