"""Calls that end or undo something: an interrupted caller must not leave it undone."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Any

from lockwork.errors import LockworkError, ServerUnavailable, ServerUnsuitable
from lockwork.protocol.effects import Call, Protocol

_LONGEST = 5.0
"""Seconds between two checks at most: a third of what a place lasts, so that two may fail."""
_AGAIN = 1.0
"""Seconds to go on trying while the server is away, for a caller whose time is up."""


class Rechecks:
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


_BRIEFLY = 0.25
"""Seconds of an undoing call whose caller has no patience left."""


def undo(call: Call, why: BaseException | None = None) -> Protocol[None]:
    """Take back what an interrupted call asked for; `why` it was interrupted.

    If the server is unreachable, what it asked for ends by its deadline.
    """
    away = isinstance(why, ServerUnavailable | ServerUnsuitable)
    with contextlib.suppress(LockworkError):
        yield replace(call, patience=_BRIEFLY if away else 1.0, brief=away)


def insist(call: Call) -> Protocol[Any]:
    """Perform the call, and return its reply.

    Interrupted, it is sent once more: the first may not have left, or may have met a server without the script.
    """
    try:
        return (yield call)
    except (GeneratorExit, LockworkError):
        raise
    except BaseException:
        with contextlib.suppress(LockworkError):
            yield replace(call.again(), patience=1)
        raise
