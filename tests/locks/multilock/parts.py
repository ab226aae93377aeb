"""Multilocks as the tests make them, and a look at their parts."""

from __future__ import annotations

from collections.abc import Callable

from lockwork import Lockwork
from lockwork.locks.multilock import MultiLock

Several = Callable[..., MultiLock]


def free(app: Lockwork, *names: str) -> bool:
    states = [app.lock(name).inspect() for name in names]
    return all(state.owner is None and state.waiters == 0 for state in states)
