"""Hides values of jobs from the dashboard: arguments of tasks that say so, and values by a function of the app."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from lockwork.app.lockwork import Lockwork


@dataclass(frozen=True, slots=True)
class Hidden:
    """Stands for a value that nobody may see; `rule` says why, and is shown."""

    rule: str = "the redact hook"


Redact = Callable[[str | None, str, object], object]
"""Called with the task's name, the argument's name (or its position, or "result", "error", "progress",
"checkpoint") and the value.

Returns what to show: the value, another one, or `Hidden(rule)`.
"""


def redacted(redact: Redact | None, task: str | None, name: str, value: object) -> object:
    """Return what may be shown of a value; if the hook fails, nothing."""
    if redact is None:
        return value
    try:
        return redact(task, name, value)
    except Exception as error:  # noqa: BLE001 - the app's own function
        return Hidden(f"the redact hook raised {type(error).__name__}")


_FRESH = 10.0
"""Seconds for which the names of the tasks are remembered."""


class HiddenTasks:
    """The tasks with `hide_arguments`: those of this app, and those that workers have announced."""

    def __init__(self, lw: Lockwork) -> None:
        self._lw = lw
        self._names: frozenset[str] = frozenset()
        self._until = 0.0

    def __contains__(self, task: object) -> bool:
        return task in self._names

    async def refresh(self) -> None:
        """Read the names again if they are old."""
        if time.monotonic() < self._until:
            return
        own = self._lw.registry.of(self._lw.registry.queues())
        names = {task.name for task in own if task.options_in_force.hide_arguments}
        names |= {task.name for app in await self._lw.aapps() for task in app.tasks if task.hidden}
        self._names, self._until = frozenset(names), time.monotonic() + _FRESH
