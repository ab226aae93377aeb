"""How long the oldest ready job of a queue has waited."""

from __future__ import annotations

from typing import NamedTuple

from lockwork.ids import made_at
from lockwork.protocol.effects import Protocol, script_call
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue.sessions import QueueHead, queue_head

_LINES = 500
"""Keys and groups with waiting jobs that one call reads."""
_MOST_CALLS = 20
_AHEAD_US = 1_000_000
"""A job that waits since a later time than this from now was admitted before the server's clock was set back."""


class ReadyAge(NamedTuple):
    """Seconds that a queue's oldest ready job has waited, 0 if none is ready; if not `known`, at least so many."""

    seconds: float
    known: bool

    def older(self, other: ReadyAge) -> ReadyAge:
        """Return the age of both together."""
        return ReadyAge(max(self.seconds, other.seconds), self.known and other.known)


NONE_READY = ReadyAge(0.0, known=True)


class Backlog:
    """Remembers when each ready list of one queue was last seen empty."""

    def __init__(self) -> None:
        self._empty: dict[int, int] = {}

    def age(self, head: QueueHead) -> ReadyAge:
        """Estimate how long the first jobs of the ready lists have waited, by their ids."""
        oldest, known = 0, True
        for level, ids in enumerate(head.first):
            if not ids:
                self._empty[level] = head.at_ms
                continue
            times = [time for id in ids if (time := made_at(id)) is not None]
            if times:
                # one that was delayed is older than its wait, so the newest of them counts
                oldest = max(oldest, head.at_ms - max(*times, self._empty.get(level, 0)))
            else:
                known = False
        return ReadyAge(oldest / 1000, known)


def ready_age(queue: QueueKeys, backlog: Backlog | None = None) -> Protocol[ReadyAge]:
    """Read how long the oldest ready job has waited; without a backlog that was read before, make one."""
    head = yield from queue_head(queue)
    return (yield from age_at(queue, head, backlog or Backlog()))


def age_at(queue: QueueKeys, head: QueueHead, backlog: Backlog) -> Protocol[ReadyAge]:
    """Do the same when the queue's head was read already.

    The time of jobs with a key or a group, and of due jobs, is the server's, and exact. With more than 10,000 keys and
    groups that have waiting jobs, the first of them are read.
    """
    age = backlog.age(head)
    if head.due_for is not None:
        age = age.older(ReadyAge(head.due_for, known=True))
    if head.grouped:
        age = age.older((yield from _grouped_age(queue)))
    return age


def _grouped_age(queue: QueueKeys) -> Protocol[ReadyAge]:
    oldest, after = NONE_READY, b""
    for _ in range(_MOST_CALLS):
        now_us, since, after = yield script_call("queue/group_ages", queue, [after, _LINES])
        waited = now_us - int(since)
        if int(since) >= 0:
            oldest = oldest.older(ReadyAge(max(0, waited) / 1e6, waited > -_AHEAD_US))
        if not after:
            return oldest
    return oldest._replace(known=False)
