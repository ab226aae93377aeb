"""What the rules look at: queues, workers and apps, read in few calls."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from lockwork.protocol.effects import Protocol, concurrently, script_call
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queues import browse, dead
from lockwork.protocol.queues import status as queue_status
from lockwork.protocol.queues.limits import QueueRules
from lockwork.protocol.queues.records import made
from lockwork.protocol.queues.sessions import queue_head
from lockwork.protocol.queues.status import QueueStatus
from lockwork.workers import App, Worker, read_apps, read_workers

RECENT = 600
"""Seconds in which dead jobs count as recent."""
_NEWEST = 20
"""Dead jobs of a queue that are read for their errors."""
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
    causes: Counter[str]
    """Why the newest of them died: errors, each with the task."""


@dataclass(frozen=True, slots=True)
class Facts:
    """The server, as Lockwork uses it."""

    queues: list[QueueFacts]
    unchecked: int
    """Queues that were not read."""
    workers: list[Worker]
    apps: list[App]


def read_facts(prefix: str) -> Protocol[Facts]:
    """Read what the rules need; at most four calls for each queue."""
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
    died, causes = 0, Counter[str]()
    if status.dead:
        died = yield script_call("dead_since", keys.dead, [RECENT * 1000])
    if died:
        page = yield from dead.page(keys, dead.Filter(most_age=RECENT * 1000), "", _NEWEST, newest=True)
        causes.update(f"{job.error.type} in {job.call.task}" for job in page.jobs if job.error.type and job.call.task)
    return QueueFacts(keys.name, status, rules, len(sessions), oldest, died, causes)
