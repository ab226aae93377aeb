"""One finding of the doctor, and the text of a duration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["serious", "warning", "info"]


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem: its subject, what happened, and what to change.

    `link` is a path below the dashboard's mount, None if no page shows it.
    """

    level: Level
    subject: str
    text: str
    fix: str
    link: str | None = None


def lasting(seconds: float) -> str:
    """Format a duration for people."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    raise AssertionError
