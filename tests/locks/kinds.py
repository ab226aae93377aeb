"""Everything that is acquired and released, as tables of handles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lockwork import Lockwork
from lockwork.locks.handle import Handle

HANDLES: dict[str, Callable[[Lockwork, str], Handle[Any]]] = {
    "lock": lambda lw, name: lw.lock(name),
    "fixed": lambda lw, name: lw.lock(name, lease="1h"),
    "sticky": lambda lw, name: lw.lock(name, sticky=True),
    "semaphore": lambda lw, name: lw.semaphore(name, permits=1),
    "rwlock": lambda lw, name: lw.rwlock(name).write(),
    "multilock": lambda lw, name: lw.multilock(name, name + "+"),
    "queuelock": lambda lw, name: lw.queue("q").lock(name),
    "at_least": lambda lw, name: lw.lock(name, at_least=0.001),
}


def taken(lw: Lockwork, kind: str, name: str) -> bool:
    """Return True if any caller holds the lock of a handle of this kind."""
    if kind == "semaphore":
        return lw.semaphore(name, permits=1).inspect().held > 0
    if kind == "queuelock":
        return lw.queue("q").lock(name).locked()
    if kind == "rwlock":
        return lw.rwlock(name).inspect().writer is not None
    return lw.lock(name).locked() or lw.lock(name + "+").locked()
