"""Ends of tracked jobs: workers list them, and take each to report it."""

from __future__ import annotations

from lockwork.ids import new_id
from lockwork.protocol.effects import Clock, Protocol, script_call
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.messages import Hints, listen
from lockwork.protocol.queue import records
from lockwork.protocol.queue.leases import RECHECK

_MOST = 1000


def unreported(queue: QueueKeys, channel: str) -> Protocol[list[tuple[str, str]]]:
    """Return the ended jobs whose end any worker may take, as id and task; `channel` is notified of the next."""
    reply: list[bytes] = yield script_call("queue/unreported", queue, [channel, _MOST])
    ends: list[tuple[str, str]] = []
    for entry in reply:
        id, _, task = records.name(entry).partition(" ")
        ends.append((id, task))
    return ends


def take(queue: QueueKeys, id: str, task: str) -> Protocol[bool]:
    """Take the end of a job, to report it; False if another worker has, or if the job has not ended."""
    taken: int = yield script_call("queue/take_end", queue, [0, new_id(), id, task])
    return bool(taken)


def hear(queue: QueueKeys, hints: Hints) -> Protocol[None]:
    """Wait for an end that this worker may take, at most RECHECK seconds; call `unreported` first."""
    yield from listen(hints, queue.unreported, (yield Clock()) + RECHECK)
