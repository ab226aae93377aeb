"""A job that is found again by its id, in a queue that the caller need not know."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from lockwork.errors import ServerRefused
from lockwork.jobs.job import LOOK_AFTER_TIMEOUT, Job, Origin
from lockwork.protocol.effects import Protocol
from lockwork.protocol.index import index
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import job_control as control
from lockwork.protocol.queue import sessions

R = TypeVar("R")
T = TypeVar("T")


class FoundJob(Job[R]):
    """The handle of a job in one of several queues; the first call to the server searches them in order.

    Until then, and if no queue has the job, `queue` is the first queue. `everywhere`: also search all other queues.
    """

    __slots__ = ("_everywhere", "_left", "_queues", "_searched_all")

    def __init__(self, origins: Sequence[Origin], id: str, *, everywhere: bool = False) -> None:
        super().__init__(origins[0], id, "kept")
        self._left: Sequence[Origin] = origins
        """The queues to search; empty once the job is found."""
        self._queues = [origin.keys.name for origin in origins]
        self._everywhere = everywhere
        self._searched_all = False

    def _at(self, made: Callable[[QueueKeys], Protocol[T]], patience: float | None = None) -> Protocol[T]:
        finding = self._search()
        if finding is not None:
            yield from finding if patience is None else sessions.within(max(patience, LOOK_AFTER_TIMEOUT), finding)
        return (yield from made(self._from.keys))

    def _search(self) -> Protocol[None] | None:
        return self._find() if len(self._left) > 1 or (self._left and self._everywhere) else None

    def _find(self) -> Protocol[None]:
        if (yield from self._find_in(self._left)) or not self._everywhere:
            return
        first = self._from
        try:
            names = yield from index.queues(first.keys.prefix)
        except ServerRefused:
            return  # this user of the server may not list the queues
        keys = [QueueKeys(first.keys.prefix, name) for name in names if name not in self._queues]
        self._searched_all = True
        yield from self._find_in([Origin(first.runtime, each, errors=first.errors) for each in keys])

    def _find_in(self, origins: Sequence[Origin]) -> Protocol[bool]:
        for origin in origins:
            details = yield from control.inspect(origin.keys, self.id)
            if details.state != "unknown" or details.row is not None:
                self._from, self._left = origin, ()
                return True
        return False

    @property
    def _searched(self) -> str:
        if self._searched_all:
            return "any queue on this server"
        return (
            f"queue {self._queues[0]!r}" if len(self._queues) == 1 else f"any of the queues {', '.join(self._queues)}"
        )
