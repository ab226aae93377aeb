"""The tasks and numbers of partitions that apps have announced on the server."""

from __future__ import annotations

from msgspec import Struct

from lockwork.app.lockwork import Lockwork
from lockwork.errors import ServerRefused
from lockwork.workers import AnnouncedTask, CodecKind, newest


class Announced(Struct, frozen=True):
    """The tasks of all apps, and the partitions of their queues; the newest announcement counts."""

    tasks: dict[tuple[str, str], AnnouncedTask]
    """By name and queue."""
    partitions: dict[str, int]
    codecs: dict[str, CodecKind]
    """How apps protect payloads, by queue."""
    ten_priorities: list[str]
    """The queues that have ten priorities."""

    @classmethod
    def read(cls, lw: Lockwork) -> Announced:
        """Read the announcements; without the right to read them, return none."""
        try:
            apps = newest(lw.apps())
        except ServerRefused:
            apps = []
        partitions: dict[str, int] = {}
        codecs: dict[str, CodecKind] = {}
        ten_priorities: set[str] = set()
        for app in apps:
            partitions |= app.partitions
            if "" in app.codecs:
                codecs |= {queue: app.codecs[""] for task in app.tasks for queue in task.queues}
            codecs |= {queue: kind for queue, kind in app.codecs.items() if queue}
            ten_priorities.update(app.ten_priorities)
        tasks = {(task.name, task.queue): task for app in apps for task in app.tasks}
        return cls(tasks, partitions, codecs, sorted(ten_priorities))

    @property
    def queues(self) -> set[str]:
        """The queues of all tasks, and their partitions."""
        queues = {queue for task in self.tasks.values() for queue in task.queues}
        return queues | {f"{name}/{number}" for name in queues for number in range(self.partitions.get(name, 0))}

    @property
    def hidden(self) -> frozenset[str]:
        """The tasks whose arguments must not be shown."""
        return frozenset(task.name for task in self.tasks.values() if task.hidden)
