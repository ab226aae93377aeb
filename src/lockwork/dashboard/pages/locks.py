"""Locks: who holds them, who waits in which order, and every deadlock; take one away from its holder."""

from __future__ import annotations

from typing import Any

from lockwork.app.lockwork import Lockwork
from lockwork.dashboard.formats import several
from lockwork.dashboard.page import Form, NotFound, Page, View
from lockwork.dashboard.waiting import graph, names_of
from lockwork.errors import ConfigError
from lockwork.protocol.locks.overview import LockSnapshot, literal
from lockwork.protocol.slots import queue_of

_SHOWN = 200
"""Locks that the page shows."""


async def read(view: View) -> dict[str, Any]:
    """Read the locks whose names match."""
    asked = view.param("name")
    pattern = asked if not asked or any(sign in asked for sign in "*?[") else f"*{asked}*"
    found = await view.lw.alocks(pattern or "*")
    # those that somebody waits for come first
    rows = sorted(found.locks, key=lambda lock: (-len(lock.line) - lock.more_waiters, lock.name, lock.kind))
    name = names_of(found)
    return {
        "rows": rows[:_SHOWN],
        "many": len(rows),
        "name": name,
        "deadlocks": [each.named(name) for each in found.deadlocks],
        "graph": graph(found, name),
    }


async def release(view: View, form: Form) -> str:
    """Take a lock away from its holder; the next waiter gets it."""
    key, name, fence = form.get("key", ""), form.get("name", ""), form.get("fence", "")
    found = await view.lw.alocks(literal(name))
    lock = next((each for each in found.locks if each.key == key and each.holders), None)
    if lock is None:
        raise NotFound(f"{name} is no longer held: nothing was released.")
    if form.get("typed", "").strip() != name:
        raise ConfigError(f"Type {name} to release it: nothing was released.")
    if str(max(held.fence for held in lock.holders)) != fence:
        raise ConfigError(f"{name} has another holder now: nothing was released.")
    released = await _take_away(view.lw, lock)
    return f"Released {name} from {several(released, 'holder')}."


async def _take_away(lw: Lockwork, lock: LockSnapshot) -> int:
    if lock.kind == "lock":
        return int(await lw.lock(lock.name).aforce_release())
    if lock.kind == "queuelock":
        queue, _, name = lock.key.partition("{q:")[2].partition("}:lock:")
        return int(await lw.queue(queue_of(queue)).lock(name).aforce_release())
    if lock.kind == "rwlock":
        return await lw.rwlock(lock.name).aforce_release()
    if lock.kind == "semaphore":
        return await lw.semaphore(lock.name, max(1, lock.capacity)).aforce_release()
    raise ConfigError(f"Only its holder can release {lock.name}, because it is a lock on several servers.")


PAGE = Page("locks", "/locks", "Locks", read, {"release": release}, key="l")
