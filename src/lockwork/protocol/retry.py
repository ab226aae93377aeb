"""Calls that end or undo something: who is interrupted meanwhile must not leave it undone."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Any

from lockwork.errors import LockworkError, ServerUnavailable, ServerUnsuitable
from lockwork.protocol.effects import Call, Protocol

_BRIEFLY = 0.25
"""Seconds of an undoing call whose caller has no patience left."""


def undo(call: Call, why: BaseException | None = None) -> Protocol[None]:
    """Take back what an interrupted call asked for; `why` it was interrupted.

    When the server is away, what it asked for ends by its deadline.
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
