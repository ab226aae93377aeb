"""A log of jobs and lock holders; each line is written before the action, so that it survives SIGKILL."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from pathlib import Path
from typing import Any

from processes import until


class History:
    """A file of JSON lines, each appended in one write."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self._lines: list[dict[str, Any]] = []
        self._counts: Counter[str] = Counter()
        self._size = 0
        """Bytes that were read; tests poll, and a chaos run has up to millions of lines."""

    def lines(self, event: str | None = None) -> list[dict[str, Any]]:
        """Return all complete lines, of one event or of all events."""
        self._read()
        return [line for line in self._lines if event in (None, line["event"])]

    def count(self, event: str) -> int:
        """Return the number of complete lines of an event."""
        self._read()
        return self._counts[event]

    def newest(self, **facts: object) -> dict[str, Any]:
        """Return the last complete line with these values, such as `event="ran"`."""
        self._read()
        return next(line for line in reversed(self._lines) if facts.items() <= line.items())

    def _read(self) -> None:
        with contextlib.suppress(FileNotFoundError), Path(self.path).open("rb") as file:
            file.seek(self._size)
            new = file.read()
            complete = new[: new.rfind(b"\n") + 1]
            lines = [json.loads(line) for line in complete.splitlines()]
            self._lines += lines
            self._counts.update(line["event"] for line in lines)
            self._size += len(complete)

    def wait(self, count: int, event: str = "ran") -> list[dict[str, Any]]:
        """Wait until there are `count` lines of an event."""
        return (
            until(
                lambda: lines if len(lines := self.lines(event)) >= count else None,
                f"{count} lines {event!r} in the history",
            )
            or []
        )
