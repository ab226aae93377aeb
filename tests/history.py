"""A log of jobs and lock holders; each line is written before the action, so that it survives SIGKILL."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from processes import until


class History:
    """A file of JSON lines, each appended in one write."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def lines(self, event: str | None = None) -> list[dict[str, Any]]:
        """Return all complete lines, of one event or of all events."""
        path = Path(self.path)
        text = path.read_text() if path.exists() else ""
        lines = [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]
        return [line for line in lines if event in (None, line["event"])]

    def wait(self, count: int, event: str = "ran") -> list[dict[str, Any]]:
        """Wait until there are `count` lines of an event."""
        return (
            until(
                lambda: lines if len(lines := self.lines(event)) >= count else None,
                f"{count} lines {event!r} in the history",
            )
            or []
        )
