"""The tasks and numbers of partitions that apps have announced on the server."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from lockwork.app.lockwork import Lockwork
from lockwork.errors import ServerRefused
from lockwork.protocol.keys import PRIORITIES
from lockwork.tasks.task import Task
from lockwork.workers import AnnouncedTask, newest


class Announced(Struct, frozen=True):
    """The tasks of all apps, and the partitions of their queues; the newest announcement counts."""

    tasks: dict[tuple[str, str], AnnouncedTask]
    """By name and queue."""
    partitions: dict[str, int]

    @classmethod
    def read(cls, lw: Lockwork) -> Announced:
        """Read the announcements; without the right to read them, return none."""
        try:
            apps = newest(lw.apps())
        except ServerRefused:
            apps = []
        partitions: dict[str, int] = {}
        for app in apps:
            partitions |= app.partitions
        return cls({(task.name, task.queue): task for app in apps for task in app.tasks}, partitions)

    @property
    def queues(self) -> set[str]:
        """The queues of all tasks, and their partitions."""
        queues = {queue for _, queue in self.tasks}
        return queues | {f"{name}/{number}" for name in queues for number in range(self.partitions.get(name, 0))}

    @property
    def hidden(self) -> frozenset[str]:
        """The tasks whose arguments must not be shown."""
        return frozenset(task.name for task in self.tasks.values() if task.hidden)


def register(lw: Lockwork, task: AnnouncedTask) -> Task[..., Any, Any]:
    """Register a task without its code, as far as its jobs depend on it."""

    def function(*args: Any, **kwargs: Any) -> None:
        """Replace the function, which only the workers have."""

    function.__name__ = task.name
    function.__signature__ = inspect.Signature(list(_parameters(task.parameters)))  # type: ignore[attr-defined]
    priority: Any = PRIORITIES[task.priority]
    registered: Task[..., Any, Any] = lw.task(
        name=task.name,
        queue=task.queue,
        retries=task.retries,
        max_deliveries=task.max_deliveries,
        priority=priority,
        key=task.key,
        group=task.group,
        group_concurrency=task.group_concurrency,
        group_rate=task.group_rate,
        hide_arguments=task.hidden,
        tags=task.tags,
    )(function)
    return registered


def _parameters(described: Iterable[str]) -> Iterable[inspect.Parameter]:
    kind: Any = inspect.Parameter.POSITIONAL_OR_KEYWORD
    for each in described:
        name = each.strip("*=")
        if each.startswith("**"):
            yield inspect.Parameter(name, inspect.Parameter.VAR_KEYWORD)
            continue
        if each.startswith("*"):
            if name:
                yield inspect.Parameter(name, inspect.Parameter.VAR_POSITIONAL)
            kind = inspect.Parameter.KEYWORD_ONLY
            continue
        yield inspect.Parameter(name, kind, default=None if each.endswith("=") else inspect.Parameter.empty)
