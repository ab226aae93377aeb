"""The delay queue: unique ids in order of time; a caller takes the due ids."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec import Struct

from lockwork.protocol.effects import Argument, Clock, Protocol, script_call
from lockwork.protocol.keys import DelayQueueKeys
from lockwork.protocol.messages import Hints, listen
from lockwork.protocol.retry import patience, undo

BATCH = 1000
"""Number of ids per call."""
_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)


class DelayQueueEntry(Struct, frozen=True):
    """One id, and its due time: `score` is that time in whole microseconds since 1970, as stored."""

    id: str
    score: int

    @property
    def due(self) -> datetime:
        """The due time as an aware datetime, in UTC."""
        return _BEGINNING + timedelta(microseconds=self.score)


def score(moment: datetime) -> int:
    """Return an aware datetime as whole microseconds since 1970."""
    return (moment - _BEGINNING) // timedelta(microseconds=1)


def stored(id: str) -> bytes:
    """Return the stored bytes of an id; ids of other programs survive the round trip."""
    return id.encode("utf-8", "surrogateescape")


def add(
    keys: DelayQueueKeys, request: str, ids: Sequence[str], at: int | None, delay_us: int, *, replace: bool
) -> Protocol[int]:
    """Add the ids, due at `at` (us), or `delay_us` from now; return how many were added or moved.

    Many ids are sent in batches; when interrupted, the ids of the sent batches remain.
    """
    count, due = 0, at
    for first in range(0, len(ids), BATCH):
        batch = map(stored, ids[first : first + BATCH])
        args: list[Argument] = [f"{request}.{first}", "r" if replace else "k", "" if due is None else due, delay_us]
        # the whole call has one time: the server's at its first batch
        added, due = yield script_call("delay_queue/add", keys, [*args, *batch])
        count += added
    return count


def pop(
    keys: DelayQueueKeys, request: str, channel: str, count: int, wait: float | None
) -> Protocol[list[DelayQueueEntry]]:
    """Take up to `count` due entries; without a due entry, wait at most `wait` seconds (None: no limit) for the first.

    When interrupted, it stops waiting, and the entries that it took are due again.
    """
    began = yield Clock()
    give_up = None if wait is None else began + wait
    requests, hints = [request], Hints()
    entries: list[DelayQueueEntry] = []
    try:
        while True:
            sent = yield Clock()
            parks = not entries and (give_up is None or sent < give_up)
            want = min(count - len(entries), BATCH)
            args: list[Argument] = [requests[-1], want, channel if parks else ""]
            recheck, *fields = yield script_call(
                "delay_queue/pop", keys, args, patience(give_up, sent) if wait else None
            )
            entries += _entries(fields)
            if len(fields) == 2 * want and len(entries) < count:
                requests.append(f"{request}.{len(requests)}")
            elif entries or not parks:
                return entries
            else:
                until = (yield Clock()) + recheck / 1_000_000
                until = until if give_up is None else min(until, give_up)
                yield from listen(hints, requests[-1], until, key=keys.entries)
    except GeneratorExit:
        raise
    except BaseException as error:
        yield from undo(script_call("delay_queue/abandon", keys, requests), error)
        raise


def peek(keys: DelayQueueKeys, count: int, *, due: bool) -> Protocol[list[DelayQueueEntry]]:
    """Read up to `count` entries, the earliest first."""
    return _entries((yield script_call("delay_queue/peek", keys, [count, int(due)])))


def remove(keys: DelayQueueKeys, request: str, id: str, score: int | None) -> Protocol[bool]:
    """Remove one entry, if it still has this score."""
    args = [request, stored(id), "" if score is None else score]
    return bool((yield script_call("delay_queue/remove", keys, args)))


def clear(keys: DelayQueueKeys, request: str) -> Protocol[int]:
    """Remove all entries; return their number."""
    return int((yield script_call("delay_queue/remove", keys, [request])))


def count(keys: DelayQueueKeys) -> Protocol[int]:
    """Count the entries, due or not."""
    return int((yield script_call("delay_queue/count", keys, [])))


def _entries(found: Sequence[Any]) -> list[DelayQueueEntry]:
    return [
        DelayQueueEntry(found[at].decode("utf-8", "surrogateescape"), found[at + 1]) for at in range(0, len(found), 2)
    ]
