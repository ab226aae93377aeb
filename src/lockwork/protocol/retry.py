"""Calls that end or undo an operation; they are also completed for an interrupted caller."""

from __future__ import annotations

import contextlib
from typing import Any

from msgspec.structs import replace

from lockwork.errors import LockworkError, ServerUnavailable, ServerUnsuitable
from lockwork.protocol.effects import Call, Protocol

_LONGEST = 5.0
"""Longest pause (seconds) between two checks: a third of the lifetime of a waiter's place, so two checks may fail."""
_AGAIN = 1.0
"""Seconds to retry while the server is unreachable, for a caller whose time is up."""


class Rechecks:
    """The pauses of one waiter, which double from `first` seconds on."""

    __slots__ = ("_pause",)

    def __init__(self, first: float) -> None:
        self._pause = first

    def next(self, now: float, give_up: float | None) -> float:
        """Return the end of the next pause."""
        until = now + self._pause
        self._pause = min(2 * self._pause, _LONGEST)
        return until if give_up is None else min(until, give_up)


def patience(give_up: float | None, now: float) -> float | None:
    """Return how many seconds a waiter's call is retried while the server is unreachable; None: as configured."""
    return None if give_up is None else max(give_up - now, _AGAIN)


_BRIEFLY = 0.25
"""Seconds for an undo call when the server is already known to be unreachable."""


def undo(call: Call, why: BaseException | None = None) -> Protocol[None]:
    """Undo the effect of an interrupted call; `why` is the exception that interrupted it.

    If the server is unreachable, the effect ends at its deadline.
    """
    away = isinstance(why, ServerUnavailable | ServerUnsuitable)
    with contextlib.suppress(LockworkError):
        yield replace(call, patience=_BRIEFLY if away else 1.0, brief=away)


def insist(call: Call) -> Protocol[Any]:
    """Perform the call, and return its reply.

    An interrupted call is sent once more, because the first may not have been sent, or the server may have lacked the
    script.
    """
    try:
        return (yield call)
    except (GeneratorExit, LockworkError):
        raise
    except BaseException:
        with contextlib.suppress(LockworkError):
            yield replace(call.again(), patience=1)
        raise
