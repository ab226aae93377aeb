"""One finding of the doctor."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Level = Literal["serious", "warning", "info"]


class Finding(Struct, frozen=True):
    """A problem: its subject, what happened, and what to change.

    `link` is a path below the dashboard's mount, None if no page shows it.
    """

    level: Level
    subject: str
    text: str
    fix: str
    link: str | None = None
