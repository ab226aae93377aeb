"""What ends a demo before its audit."""

from __future__ import annotations

from lockwork.errors import LockworkError


class DemoFailed(LockworkError):
    """The sale could not be played to its end; says nothing about what was sold."""


class Interrupted(Exception):
    """A signal asked the demo to stop; `number` is the signal's."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number
