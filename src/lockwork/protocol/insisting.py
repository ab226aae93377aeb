"""Calls that end something: who is interrupted meanwhile must not leave it undone."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Any

from lockwork.errors import LockworkError
from lockwork.protocol.effects import Call, Protocol


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
