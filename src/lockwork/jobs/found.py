"""A job that is found again by its id, in whichever of several queues it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from lockwork.jobs.job import Job, Origin
from lockwork.protocol.effects import Protocol
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queues import leases as protocol

R = TypeVar("R")
T = TypeVar("T")


class FoundJob(Job[R]):
    """Looks for the job with its first call to the server: one call per queue, until it is found.

    Until then, and if it is nowhere, `queue` is the first of them.
    """

    __slots__ = ("_left", "_queues")

    def __init__(self, origins: Sequence[Origin], id: str) -> None:
        super().__init__(origins[0], id, "kept")
        self._left: Sequence[Origin] = origins
        """Where it may be, as long as it is not found."""
        self._queues = [origin.keys.name for origin in origins]

    def _at(self, made: Callable[[QueueKeys], Protocol[T]]) -> Protocol[T]:
        if len(self._left) > 1:
            yield from self._find()
        return (yield from made(self._from.keys))

    def _find(self) -> Protocol[None]:
        for origin in self._left:
            found = yield from protocol.job_state(origin.keys, self.id)
            if found.state != "unknown":
                self._from, self._left = origin, ()
                return

    @property
    def _searched(self) -> str:
        return (
            f"queue {self._queues[0]!r}" if len(self._queues) == 1 else f"any of the queues {', '.join(self._queues)}"
        )
