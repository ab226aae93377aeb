"""Parked jobs: jobs that workers returned because they cannot run them."""

from __future__ import annotations

from msgspec import Struct

from lockwork.protocol.effects import Protocol, script_call
from lockwork.protocol.keys import QueueKeys

_MOST = 100


class ParkedTask(Struct, frozen=True):
    """A task whose jobs wait for a worker that knows it.

    since: when a worker first returned the oldest of these jobs, in ms since 1970.
    """

    task: str
    jobs: int
    since: int
    versions: tuple[str, ...] = ()
    """Versions of the task that the calls do not fit; empty if workers do not know the task."""


def parked_tasks(queue: QueueKeys) -> Protocol[list[ParkedTask]]:
    """Read the tasks of parked jobs, at most 100 tasks."""
    reply = yield script_call("queue/parked", queue, [_MOST])
    tasks = []
    for at in range(0, len(reply), 3):
        task, _, versions = reply[at].decode(errors="replace").partition(" ")
        since = int(reply[at + 2].split(b" ", 1)[0] or 0)
        tasks.append(ParkedTask(task, reply[at + 1], since, tuple(filter(None, versions.split(",")))))
    return tasks
