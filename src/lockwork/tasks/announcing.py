"""A process that enqueues announces its app on the server, as workers do."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import TypeVar

from lockwork.errors import LockworkError
from lockwork.logs import Log
from lockwork.protocol.effects import Protocol
from lockwork.protocol.queue.sessions import within
from lockwork.runtime.clock import now

R = TypeVar("R")
log: Log = Log("lockwork")

EVERY: float = 3600.0
"""Seconds between two announcements of an app by one process."""
_PATIENCE = 0.5


class Announcing:
    """Announces the app after the first enqueue of a process, then after the next one in each hour."""

    def __init__(self) -> None:
        self.due: float = inf
        """Time when the next enqueue announces the app, by this process's clock."""
        self._put: Callable[[], Protocol[None]] | None = None

    def begin(self, put: Callable[[], Protocol[None]]) -> None:
        """Announce with `put` from the next enqueue on; later calls of this method change nothing."""
        if self._put is None:
            self.due, self._put = 0.0, put

    def stop(self) -> None:
        """Stop announcing: another process does, such as the supervisor of this worker process."""
        self.due = inf

    def after(self, enqueue: Protocol[R]) -> Protocol[R]:
        """Enqueue, and then announce if it is time."""
        result = yield from enqueue
        if self.due <= now():
            yield from self.announce()
        return result

    def announce(self) -> Protocol[None]:
        """Announce; an error is logged and nothing more, since the jobs are enqueued."""
        if self._put is None:
            return
        self.due = now() + EVERY
        try:
            yield from within(_PATIENCE, self._put())
        except LockworkError as error:
            log.info("this app could not be announced on the server: %s", error)
