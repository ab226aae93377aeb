"""What jobs and lock holders append to a file before they act, so that even SIGKILL takes nothing back."""

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
        """All whole lines so far, of one event or of all."""
        path = Path(self.path)
        text = path.read_text() if path.exists() else ""
        found = [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]
        return [line for line in found if event in (None, line["event"])]

    def wait(self, count: int, event: str = "ran") -> list[dict[str, Any]]:
        """Wait until so many lines of an event are there."""
        return (
            until(
                lambda: found if len(found := self.lines(event)) >= count else None,
                f"{count} lines {event!r} in the history",
            )
            or []
        )
