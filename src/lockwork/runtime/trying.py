"""Retry limits and pauses of failed calls, for all drivers."""

from __future__ import annotations

import random

from lockwork.runtime.clock import REMEMBERED, now
from lockwork.runtime.replies import Late, Retry, gone, unforeseen

_HURRIED = 1.0
"""Limit in seconds below which a try without an answer is less informative than the previous error."""


def backoff(tries: int) -> float:
    """Return the pause in seconds before try number `tries` + 1: full jitter, doubling from 10 ms to half a second."""
    return random.uniform(0.005, min(0.5, 0.01 * 2 ** min(tries, 10)))  # noqa: S311 - spreads load, hides nothing


class Tries:
    """The tries of one call, which began at `began`."""

    __slots__ = ("_began", "_count", "_patience", "_sent", "_tried", "_where", "_why")

    def __init__(self, where: str, began: float, patience: float) -> None:
        self._where = where
        self._began = self._tried = began
        self._patience = patience
        self._count = 0
        self._sent: float | None = None
        """Earliest time when it may have reached the server."""
        self._why: Retry | None = None

    def pause(self, error: Retry) -> float:
        """Return the pause in seconds before the next try; raise the final error if there is none."""
        self._count += 1
        if error.sent and self._sent is None:
            self._sent = self._tried
        if self._why is None or not (isinstance(error, Late) and error.seconds < _HURRIED):
            self._why = error
        seconds = backoff(self._count)
        if now() + seconds > min(self._began + self._patience, self._last()):
            raise self._final()
        return seconds

    def again(self) -> None:
        """Begin the next try; raise the final error if the pause took too long, as after a system suspend."""
        self._tried = now()
        if self._tried > self._last():
            raise self._final()

    def _last(self) -> float:
        return float("inf") if self._sent is None else self._sent + REMEMBERED

    def _final(self) -> Exception:
        assert self._why is not None
        final = gone(self._where, self._why, now() - self._began)
        final.__cause__ = unforeseen(self._why) or self._why
        return final
