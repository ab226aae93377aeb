"""Read how long the oldest ready job of a queue has waited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from lockwork.errors import LockworkError
from lockwork.ids import is_own, made_at
from lockwork.protocol.effects import Calls, Protocol, script_call
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue.records import noted_us
from lockwork.protocol.queue.sessions import QueueHead, queue_head

_LINES = 500
"""Limit per call of keys and groups with waiting jobs to read."""
_MOST_CALLS = 20
_RECORD = 6
"""The record in a reply of queue/inspect."""
_NONE_NOTED: Mapping[str, int] = MappingProxyType({})
_AHEAD_US = 1_000_000
"""A start of the wait that is further ahead than this (µs) comes from a server clock that was set back since."""


class ReadyAge(NamedTuple):
    """Seconds that a queue's oldest ready job has waited, 0 if no job is ready; a lower bound if not `known`."""

    seconds: float
    known: bool

    def older(self, other: ReadyAge) -> ReadyAge:
        """Return the age of two queues together."""
        return ReadyAge(max(self.seconds, other.seconds), self.known and other.known)


NONE_READY = ReadyAge(0.0, known=True)


class Backlog:
    """Remembers when each ready list of one queue was last seen empty."""

    def __init__(self) -> None:
        self._empty: dict[int, int] = {}

    def age(self, head: QueueHead, noted: Mapping[str, int] = _NONE_NOTED) -> ReadyAge:
        """Estimate how long the first jobs of the ready lists have waited, by their ids.

        noted: times (ms since 1970) of the enqueues of jobs whose ids have none.
        """
        oldest, known = 0, True
        for level, ids in enumerate(head.first):
            if not ids:
                self._empty[level] = head.at_ms
                continue
            times = [time for id in ids if (time := made_at(id) or noted.get(id)) is not None]
            if times:
                # a delayed job is older than its wait, so use the newest of the times
                oldest = max(oldest, head.at_ms - max(*times, self._empty.get(level, 0)))
            else:
                known = False
        return ReadyAge(oldest / 1000, known)


def ready_age(queue: QueueKeys, backlog: Backlog | None = None) -> Protocol[ReadyAge]:
    """Read how long the oldest ready job has waited; without an earlier backlog, use a new one."""
    head = yield from queue_head(queue)
    return (yield from age_at(queue, head, backlog or Backlog()))


def age_at(queue: QueueKeys, head: QueueHead, backlog: Backlog) -> Protocol[ReadyAge]:
    """Return how long the oldest ready job has waited, from a queue head that was already read.

    The time of jobs with a key or a group, and of due jobs, comes from the server and is exact. With more than 10,000
    keys and groups that have waiting jobs, only the first of them are read. Of jobs with their callers' own ids, the
    records have the time.
    """
    own = [id for ids in head.first for id in ids if is_own(id)]
    age = backlog.age(head, (yield from _noted(queue, own)) if own else _NONE_NOTED)
    if head.due_for is not None:
        age = age.older(ReadyAge(head.due_for, known=True))
    if head.grouped:
        age = age.older((yield from _grouped_age(queue)))
    return age


def _noted(queue: QueueKeys, ids: Sequence[str]) -> Protocol[dict[str, int]]:
    """Read the times of the enqueues of these jobs from their records."""
    noted: dict[str, int] = {}
    replies = yield Calls([script_call("queue/inspect", queue, [id, ""]) for id in ids])
    for id, reply in zip(ids, replies, strict=True):
        if isinstance(reply, LockworkError):
            raise reply
        if (time_us := noted_us(reply[_RECORD])) is not None:
            noted[id] = time_us // 1000
    return noted


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
