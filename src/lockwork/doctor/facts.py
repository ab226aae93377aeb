"""What the rules look at: queues, workers and apps, read in few calls."""

from __future__ import annotations

from dataclasses import dataclass

from lockwork.protocol.effects import Protocol, concurrently, script_call
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queues import browse
from lockwork.protocol.queues import status as queue_status
from lockwork.protocol.queues.limits import QueueRules
from lockwork.protocol.queues.records import made
from lockwork.protocol.queues.sessions import queue_head
from lockwork.protocol.queues.status import QueueStatus
from lockwork.workers import App, Worker, read_apps, read_workers

RECENT = 600
"""Seconds in which dead jobs count as recent."""
MOST_QUEUES = 200
"""Queues and partitions that are read; of more, the rest are not checked."""


@dataclass(frozen=True, slots=True)
class QueueFacts:
    """One queue or partition."""

    name: str
    status: QueueStatus
    rules: QueueRules
    sessions: int
    """Worker processes."""
    oldest: float | None
    """Seconds that the oldest ready job has waited, about."""
    died: int
    """Jobs that died lately."""


@dataclass(frozen=True, slots=True)
class Facts:
    """The server, as Lockwork uses it."""

    queues: list[QueueFacts]
    unchecked: int
    """Queues that were not read."""
    workers: list[Worker]
    apps: list[App]


def read_facts(prefix: str) -> Protocol[Facts]:
    """Read what the rules need; at most three calls for each queue."""
    names = yield from browse.find(prefix)
    queues = yield from concurrently([_queue(QueueKeys(prefix, name)) for name in names[:MOST_QUEUES]])
    workers = yield from read_workers(prefix)
    apps = yield from read_apps(prefix)
    return Facts(queues, len(names) - len(queues), workers, apps)


def _queue(keys: QueueKeys) -> Protocol[QueueFacts]:
    status, sessions, rules = yield from queue_status.status_and_rules(keys)
    oldest = None
    if status.ready:
        head = yield from queue_head(keys)
        times = [at for ids in head.first for id in ids if (at := made(id)) is not None]
        oldest = max(0.0, head.at_ms / 1000 - min(times)) if times else None
    died = 0
    if status.dead:
        died = yield script_call("dead_since", keys.dead, [RECENT * 1000])
    return QueueFacts(keys.name, status, rules, len(sessions), oldest, died)
