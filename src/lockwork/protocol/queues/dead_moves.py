"""What leaves the dead set: jobs that are run again, deleted, or beyond its bounds; in bounded steps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from lockwork.protocol.effects import Argument, Call, Protocol
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queues import records
from lockwork.protocol.queues.dead import HEAD, PAGE, Cursor, DeadJob, Filter, read_some
from lockwork.protocol.queues.enqueue import push_keys
from lockwork.protocol.scripts import script

_MOVES = 500
_TRIM = 500


def retry_one(queue: QueueKeys, id: str, request: str, *, anew: bool) -> Protocol[bool]:
    """Make one job ready to run again; False when it is not dead."""
    keys = _retry_keys(queue, request)
    _, moved = yield Call(script("dead_retry"), keys, [1, int(anew), records.raw(id), ""])
    return bool(moved)


def retry(queue: QueueKeys, wanted: Filter, request: str, most: int | None, *, anew: bool) -> Protocol[int]:
    """Make all that match ready to run again, or `most` of them, the oldest first; returns how many.

    Those that die from now on are not meant.
    """
    keys = _retry_keys(queue, request)
    return (yield from _bulk(queue, wanted, most, "dead_retry", keys, [int(anew)]))


def delete_one(queue: QueueKeys, id: str, request: str) -> Protocol[bool]:
    """Delete one job; False when it is not dead."""
    _, gone = yield Call(script("dead_delete"), _delete_keys(queue, request), [1, records.raw(id), ""])
    return bool(gone)


def delete(queue: QueueKeys, wanted: Filter, request: str, most: int | None) -> Protocol[int]:
    """Delete all that match, or `most` of them, the oldest first; returns how many."""
    return (yield from _bulk(queue, wanted, most, "dead_delete", _delete_keys(queue, request), []))


def _retry_keys(queue: QueueKeys, request: str) -> tuple[str, ...]:
    return (*push_keys(queue), queue.tries, queue.dead, queue.errors, queue.books, queue.step(request))


def _kept_keys(queue: QueueKeys) -> tuple[str, ...]:
    return (queue.dead, queue.jobs, queue.errors, queue.tries, queue.stats, queue.notes)


def _delete_keys(queue: QueueKeys, request: str) -> tuple[str, ...]:
    return (*_kept_keys(queue), queue.step(request))


def _bulk(
    queue: QueueKeys, wanted: Filter, most: int | None, name: str, keys: tuple[str, ...], options: list[Argument]
) -> Protocol[int]:
    cursor, step, done = Cursor(), 0, 0
    limit = replace(wanted, least_age=wanted.least_age or 0)
    while most is None or done < most:
        size = (_MOVES, 0) if wanted.plain else (PAGE, HEAD)
        found = yield from read_some(queue, limit, cursor, *size, newest=False)
        chosen = [job for job in found.jobs if wanted.matches(job)]
        while chosen and (most is None or done < most):
            batch = chosen if most is None else chosen[: most - done]
            step += 1
            looked, moved = yield Call(script(name), keys, [step, *options, *_marks(batch)])
            chosen = chosen[looked:]
            done += moved
        cursor = found.cursor
        if not found.more:
            break
    return done


def _marks(jobs: list[DeadJob]) -> Iterator[Argument]:
    for job in jobs:
        yield records.raw(job.id)
        yield job.died


@dataclass(frozen=True, slots=True)
class Bounds:
    """How long a dead job is kept, in ms, and how many of them are."""

    ttl_ms: int
    limit: int


def trim(queue: QueueKeys, bounds: Bounds) -> Protocol[tuple[int, bool]]:
    """Take away some of what is beyond the bounds; returns how many those were, and whether there are more."""
    keys = _kept_keys(queue)
    args = [bounds.ttl_ms, bounds.limit, _TRIM]
    gone, more = yield Call(script("dead_trim"), keys, args, patience=0.5)
    return gone, bool(more)
