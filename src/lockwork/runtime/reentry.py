"""Locks that a signal handler cannot wait for: the interrupted code holds them, on the same thread."""

from __future__ import annotations

import threading
from typing import Any

from lockwork.errors import BlockingCallError


def held_here(lock: Any) -> bool:
    """Return True if this thread holds an RLock: then this code runs in a signal handler, or in `__del__`."""
    return bool(lock._is_owned())  # noqa: SLF001 - threading.Condition relies on it as well


def entered_once(lock: Any) -> Any:
    """Return an RLock to enter; raises BlockingCallError if a signal handler has interrupted its holder."""
    if held_here(lock):
        raise BlockingCallError(
            "a signal handler called Lockwork at a moment at which it had interrupted Lockwork itself: "
            "let the handler set a flag or start a thread, and make the call there"
        )
    return lock


def new_lock() -> Any:
    """Make a lock for `entered_once`."""
    return threading.RLock()
