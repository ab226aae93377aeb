"""Status of a queue: its jobs by place, its counters, and its workers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lockwork.errors import LockworkError
from lockwork.protocol.effects import Call, Calls, Protocol, script_call
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import limits as queue_limits
from lockwork.protocol.queue.limits import QueueRules

MOST_SESSIONS = 1000
"""Limit per call of worker sessions whose jobs are counted or read."""


@dataclass(frozen=True, slots=True)
class QueueStatus:
    """Jobs of a queue by place, and its counters since it was created (`failed` counts attempts, `dead` is a place).

    `revived` jobs ran again after they were dead, expired or cancelled. `forgotten` jobs were deleted from the dead
    set, and `cleared` jobs while they waited. `skipped` jobs of flows did not run, because no job failed whose failure
    they waited for. So `enqueued` is the sum of all places, `succeeded`, `cancelled`, `expired`, `forgotten`, `cleared`
    and `skipped`, except for cancelled or expired jobs that were revived.
    """

    ready: int
    scheduled: int
    running: int
    dead: int
    enqueued: int
    succeeded: int
    failed: int
    retried: int
    recovered: int
    cancelled: int = 0
    expired: int = 0
    revived: int = 0
    forgotten: int = 0
    cleared: int = 0
    paused: bool = False
    blocked: int = 0
    """Jobs that wait for others of their flow."""
    skipped: int = 0


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """One worker process: its session, host and process id, its jobs, and seconds until its lease ends."""

    session: str
    host: str
    pid: int
    running: int
    expires_in: float


def status(queue: QueueKeys) -> Protocol[tuple[QueueStatus, list[WorkerInfo]]]:
    """Count the jobs by place and list the workers."""
    queue_status, workers, _ = yield from status_and_rules(queue)
    return queue_status, workers


def status_and_rules(
    queue: QueueKeys, expected: Sequence[str] = ()
) -> Protocol[tuple[QueueStatus, list[WorkerInfo], QueueRules]]:
    """Count the jobs, list the workers, and read the rules of the queue; repeat the call if it has new sessions.

    expected: the sessions that the queue probably has. If it has no others, one call is enough.
    """
    sessions = list(expected)
    while True:
        reply = yield _status_call(queue, sessions)
        listed = _sessions(reply)
        if set(listed) <= set(sessions):
            return _read(sessions, reply, (yield from _count_rest(queue, sessions)))
        sessions = listed


def statuses(queues: Sequence[QueueKeys]) -> Protocol[list[tuple[QueueStatus, list[WorkerInfo]]]]:
    """Read the status of many queues or partitions, with the round trips per server of a single `status` call."""
    results: dict[QueueKeys, tuple[QueueStatus, list[WorkerInfo], QueueRules]] = {}
    sessions: dict[QueueKeys, list[str]] = {queue: [] for queue in queues}
    while remaining := [queue for queue in queues if queue not in results]:
        replies = yield Calls([_status_call(queue, sessions[queue]) for queue in remaining])
        for queue, reply in zip(remaining, replies, strict=True):
            if isinstance(reply, LockworkError):
                raise reply
            listed = _sessions(reply)
            if set(listed) <= set(sessions[queue]):
                results[queue] = _read(sessions[queue], reply, (yield from _count_rest(queue, sessions[queue])))
            sessions[queue] = listed
    return [results[queue][:2] for queue in queues]


def _status_call(queue: QueueKeys, sessions: Sequence[str]) -> Call:
    first = sessions[:MOST_SESSIONS]
    return script_call("queue/status", queue, first, runs=[*map(queue.run, first)])


def _count_rest(queue: QueueKeys, sessions: Sequence[str]) -> Protocol[list[int]]:
    """Count the running jobs of the sessions after the first MOST_SESSIONS. One call for all would take long."""
    counts: list[int] = []
    for at in range(MOST_SESSIONS, len(sessions), MOST_SESSIONS):
        part = sessions[at : at + MOST_SESSIONS]
        counts += yield script_call("queue/count_running", [*map(queue.run, part)])
    return counts


def _sessions(reply: Sequence[Any]) -> list[str]:
    workers = reply[4]
    return [workers[at].decode() for at in range(0, len(workers), 2)]


def _read(
    sessions: Sequence[str], reply: Sequence[Any], rest: Sequence[int]
) -> tuple[QueueStatus, list[WorkerInfo], QueueRules]:
    ready, scheduled, dead, stats, workers, now, blocked, *first = reply
    running = [*first, *rest]
    counters = {stats[at].decode(): stats[at + 1] for at in range(0, len(stats), 2)}
    names = (
        "enqueued", "succeeded", "failed", "retried", "recovered", "cancelled", "expired", "revived", "forgotten",
        "cleared", "skipped",
    )  # fmt: skip
    counted: Any = {name: int(counters.get(name, 0)) for name in names} | {"blocked": blocked}
    deadlines = {workers[at].decode(): float(workers[at + 1]) for at in range(0, len(workers), 2)}
    infos = [
        WorkerInfo(session, *_host_and_pid(session), count, (deadlines[session] - now) / 1000)
        for session, count in zip(sessions, running, strict=True)
        if deadlines.get(session, 0) >= 1  # below 1: the session is over, and recovery returns its jobs
    ]
    rules = queue_limits.read(**{name: counters[name] for name in QueueRules._fields if name in counters})
    return QueueStatus(ready, scheduled, sum(running), dead, **counted, paused="paused" in counters), infos, rules


def session_name(host: str, pid: int, nonce: str) -> str:
    """Name a worker session; host and pid are for people, the nonce makes it unique."""
    return f"{host}/{pid}/{nonce}"


def _host_and_pid(session: str) -> tuple[str, int]:
    host, pid, _ = session.split("/")
    return host, int(pid)
