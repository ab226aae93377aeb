"""Rules of a whole queue: pause, and limits of rate, concurrency and size. Also waits until a queue is empty."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from lockwork import words
from lockwork.errors import QueueFull, WaitTimeout
from lockwork.protocol.effects import Argument, Clock, Protocol, script_call
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.messages import Hints, listen
from lockwork.protocol.retry import patience

_RECHECK = 1.0
"""Seconds until `drain` counts again, because some changes that empty a queue send no message."""


class QueueRules(NamedTuple):
    """Rules of a queue; None is no limit.

    `rate` is jobs and ms, `paused` the start of the pause in ms since 1970. `pauses` are the start and end of the last
    finished pauses; only a status has them.
    """

    paused: int | None
    rate: tuple[int, int] | None
    concurrency: int | None
    size: int | None
    pauses: tuple[tuple[int, int], ...] = ()


def room_for(queue: QueueKeys, reply: Any, ahead: int = 0, *, jobs: int = 1) -> int:
    """Return the reply of a script that enqueues `jobs` jobs. Raises QueueFull if they do not fit.

    ahead: number of jobs of the same call that earlier batches enqueued.
    """
    if isinstance(reply, list):
        waiting, limit, *first = reply
        raise QueueFull(_full(queue.name, waiting, limit, jobs), queue.name, waiting, limit, ahead + sum(first))
    count: int = reply
    return count


def _full(queue: str, waiting: int, limit: int, jobs: int) -> str:
    if not limit:
        return f"queue {queue!r} takes no jobs, because its size limit is 0: raise the limit"
    detail, fewer = (f"; {jobs:,} were to be enqueued at once", "enqueue fewer at once, ") if jobs > 1 else ("", "")
    return (
        f"{words.several(waiting, 'job waits', 'jobs wait')} in queue {queue!r}, and its limit is {limit:,}{detail}: "
        f"wait for its workers, {fewer}or raise the limit"
    )


def change(queue: QueueKeys, changes: Mapping[str, Argument]) -> Protocol[QueueRules]:
    """Change the named rules (`paused` is one of them); an empty value removes a rule.

    Wakes the workers that may have jobs now.
    """
    args: list[Argument] = []
    for name, value in changes.items():
        args += (name, value)
    while True:
        more, *fields = yield script_call("queue/set_rules", queue, args)
        if not more:
            return read(*fields)
        args = []


def rules(queue: QueueKeys) -> Protocol[QueueRules]:
    """Read the rules of a queue."""
    return read(*(yield script_call("queue/rules", queue)))


def drain(queue: QueueKeys, channel: str, timeout: float | None, *, delayed: bool) -> Protocol[bool]:
    """Wait until no job waits or runs (with `delayed`: or is scheduled). Return True if there was no wait.

    Raises WaitTimeout. An interrupted call only leaves its channel in a list, which is emptied when no job runs.
    """
    began = yield Clock()
    give_up = None if timeout is None else began + timeout
    at_once, hints = True, Hints()
    while True:
        sent = yield Clock()
        here = channel if give_up is None or sent < give_up else ""
        call = script_call("queue/remaining", queue, [int(delayed), here], patience(give_up, sent))
        waiting, running, paused = yield call
        if not waiting and not running:
            return at_once
        at_once = False
        now = yield Clock()
        if give_up is not None and now >= give_up:
            still = ", and the queue is paused" if paused else ""
            raise WaitTimeout(
                f"queue {queue.name!r} was not drained within {words.exact(timeout)}: "
                f"{words.several(waiting, 'job waits', 'jobs wait')}, {words.several(running, 'runs', 'run')}{still}"
            )
        until = now + _RECHECK
        yield from listen(hints, queue.stats, until if give_up is None else min(until, give_up), key=queue.stats)


def read(
    paused: bytes = b"", rate: bytes = b"", concurrency: bytes = b"", size: bytes = b"", pauses: bytes = b""
) -> QueueRules:
    """Parse the stored rules; an empty value is no rule."""
    jobs, _, per_ms = rate.partition(b"/")
    return QueueRules(
        int(paused) if paused else None,
        (int(jobs), int(per_ms)) if rate else None,
        int(concurrency) if concurrency else None,
        int(size) if size else None,
        tuple((int(since), int(to)) for since, _, to in (each.partition(b"-") for each in pauses.split())),
    )
