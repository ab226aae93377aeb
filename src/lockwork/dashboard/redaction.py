"""Hides values of jobs from the dashboard, by a function of the app."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


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
