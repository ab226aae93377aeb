"""One finding of the doctor."""

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
