"""Hides values of jobs from the dashboard: arguments of tasks with `hide_arguments`, and values that a hook redacts."""

from __future__ import annotations

import time
from collections.abc import Callable

from msgspec import Struct

from lockwork.app.lockwork import Lockwork


class Hidden(Struct, frozen=True):
    """Replaces a hidden value; the page shows `rule` as the reason."""

    rule: str = "the redact hook"


Redact = Callable[[str | None, str, object], object]
"""Called with the task's name, the argument's name (or its position, or "result", "error", "progress", "checkpoint")
and the value; for a positional argument, with its position, and again with its name.

Returns the value to show: the same, another one, or `Hidden(rule)`.
"""


def redacted(redact: Redact | None, task: str | None, name: str, value: object) -> object:
    """Return the visible form of a value; if the hook fails, hide it."""
    if redact is None:
        return value
    try:
        return redact(task, name, value)
    except Exception as error:  # noqa: BLE001 - the app's own function
        return Hidden(f"the redact hook raised {type(error).__name__}")


_FRESH = 10.0
"""Seconds that the tasks are cached."""


class KnownTasks:
    """Tasks of this app and of announced apps, with `hide_arguments` and parameter names."""

    def __init__(self, lw: Lockwork) -> None:
        self._lw = lw
        self.hidden: frozenset[str] = frozenset()
        """Tasks that hide their arguments. Jobs have this flag, too, unless an older version enqueued them."""
        self._positions: dict[str | None, list[str]] = {}
        self._until = 0.0

    def hides(self, task: str | None) -> bool:
        """Return True if the arguments of this task are hidden."""
        return task in self.hidden

    def parameter(self, task: str | None, position: int) -> str:
        """Return the name of a parameter, or its position if the name is unknown."""
        names = self._positions.get(task, ())
        return names[position] if position < len(names) else str(position)

    async def refresh(self) -> None:
        """Read the tasks again if the cache is old."""
        if time.monotonic() < self._until:
            return
        own = self._lw.registry.of(self._lw.registry.queues())
        announced = [task for app in sorted(await self._lw.aapps(), key=lambda app: app.seen) for task in app.tasks]
        hidden = {task.name for task in own if task.options_in_force.hide_arguments}
        self.hidden = frozenset(hidden | {task.name for task in announced if task.hidden})
        self._positions = {task.name: task.positions for task in announced}
        self._positions |= {task.name: task.signature.positions for task in own}
        self._until = time.monotonic() + _FRESH
