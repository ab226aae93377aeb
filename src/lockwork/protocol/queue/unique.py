"""Unique jobs: only one job has a name at a time; a call under the same name returns that job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from lockwork.protocol.effects import Argument, Protocol, script_call
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue.enqueue import NewJob, batch_arguments
from lockwork.protocol.queue.limits import room_for

BATCH = 500
Until = Literal["start", "done"]
Arrival = Literal["new", "kept", "replaced", "moved"]
_ARRIVALS: dict[bytes, Arrival] = {b"n": "new", b"k": "kept", b"r": "replaced", b"m": "moved"}
_SIGNS = {"start": "s", "done": "d"}
_MEANINGS = {"keep": "k", "replace": "r", "debounce": "b"}


class Terms(NamedTuple):
    """The time that a unique name is in use, and the effect of a new call on the job that has the name."""

    until: Until | int
    """Until the job begins, until it has ended, or for this time in ms."""
    meaning: Literal["keep", "replace", "debounce"]
    longest_ms: int = 0
    """Latest due time of a debounced job, in ms from the first call; 0: no limit."""

    def mark(self, name: str) -> str:
        """Return the part of a record header for a unique name."""
        return (_SIGNS[self.until] if isinstance(self.until, str) else "p") + name


class Arrived(NamedTuple):
    """Result of a call: the job that has the name or id, and whether that job is new, unchanged, replaced or moved."""

    id: str
    arrival: Arrival


def push_unique(
    queue: QueueKeys, jobs: Sequence[NewJob], terms: Terms, expires_ms: int | None
) -> Protocol[list[Arrived]]:
    """Enqueue the jobs whose names are free, in batches; a taken name has the effect that `terms.meaning` names.

    Raises QueueFull; nothing of the failing batch and all later ones is enqueued or changed.
    """
    time = terms.until if isinstance(terms.until, int) else 0
    fixed: tuple[Argument, ...] = (
        "" if expires_ms is None else expires_ms,
        time,
        _MEANINGS[terms.meaning],
        terms.longest_ms,
    )
    arrived: list[Arrived] = []
    at = count = 0
    while (at := at + count) < len(jobs):
        batch = batch_arguments(jobs, at, BATCH)
        args, count = [0, *fixed, *batch], len(batch) // 3
        call = script_call("queue/push_unique", queue, args, finds_ended=True)
        reply: list[Any] = yield call
        if isinstance(reply[0], int):
            room_for(queue, reply, at, jobs=count)
        arrived += [Arrived(id.decode(), _ARRIVALS[sign]) for id, sign in zip(reply[::2], reply[1::2], strict=True)]
    return arrived
