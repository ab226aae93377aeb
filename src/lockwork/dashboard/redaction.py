"""Hides values of jobs from the dashboard: arguments of tasks that say so, and values by a function of the app."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from lockwork.app.lockwork import Lockwork


@dataclass(frozen=True, slots=True)
class Hidden:
    """Replaces a hidden value; the page shows `rule` as the reason."""

    rule: str = "the redact hook"


Redact = Callable[[str | None, str, object], object]
"""Called with the task's name, the argument's name (or its position, or "result", "error", "progress",
"checkpoint") and the value; for an argument that was given by position, with the position, and with its name.

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
"""Seconds for which the tasks are remembered."""


class KnownTasks:
    """The tasks of this app, and those that apps have announced: which hide their arguments, and what these mean."""

    def __init__(self, lw: Lockwork) -> None:
        self._lw = lw
        self._hidden: frozenset[str | None] = frozenset()
        self._positions: dict[str | None, list[str]] = {}
        self._until = 0.0

    def hides(self, task: str | None) -> bool:
        """Whether nobody may see the arguments of this task."""
        return task in self._hidden

    def parameter(self, task: str | None, position: int) -> str:
        """The name of a parameter, or its position if that is all that is known."""
        names = self._positions.get(task, ())
        return names[position] if position < len(names) else str(position)

    async def refresh(self) -> None:
        """Read the names again if they are old."""
        if time.monotonic() < self._until:
            return
        own = self._lw.registry.of(self._lw.registry.queues())
        announced = [task for app in sorted(await self._lw.aapps(), key=lambda app: app.seen) for task in app.tasks]
        hidden = {task.name for task in own if task.options_in_force.hide_arguments}
        self._hidden = frozenset(hidden | {task.name for task in announced if task.hidden})
        self._positions = {task.name: task.positions for task in announced}
        self._positions |= {task.name: task.signature.positions for task in own}
        self._until = time.monotonic() + _FRESH
