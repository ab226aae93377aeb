"""When somebody who waits for a wake-up looks again by itself: soon at first, then less and less often."""

from __future__ import annotations

_LONGEST = 5.0
"""Seconds between two looks at most: a third of what a place lasts, so that two may fail."""
_AGAIN = 1.0
"""Seconds to go on trying while the server is away, for a caller whose time is up."""


class Looks:
    """The pauses of one waiter, which double from `first` seconds on."""

    __slots__ = ("_pause",)

    def __init__(self, first: float) -> None:
        self._pause = first

    def next(self, now: float, give_up: float | None) -> float:
        """Return until when to wait this time."""
        until = now + self._pause
        self._pause = min(2 * self._pause, _LONGEST)
        return until if give_up is None else min(until, give_up)


def patience(give_up: float | None, now: float) -> float | None:
    """How long a waiter's call goes on trying while the server is away; None: as configured."""
    return None if give_up is None else max(give_up - now, _AGAIN)
