"""Locks: holders, waiters in order, and every deadlock; take a lock away from its holder."""

from __future__ import annotations

from typing import Any

from lockwork.app.lockwork import Lockwork
from lockwork.dashboard.formats import visible
from lockwork.dashboard.page import Form, NotFound, Page, View
from lockwork.dashboard.waiting import graph
from lockwork.errors import ConfigError
from lockwork.inspection.lock_owners import OwnerNames
from lockwork.protocol.locks.overview import LockSnapshot, literal
from lockwork.protocol.names import display, shown, typed
from lockwork.protocol.slots import queue_of
from lockwork.words import several, short_id

_SHOWN = 200
"""Maximum locks of the page."""


async def read(view: View) -> dict[str, Any]:
    """Read the locks whose names match."""
    name = view.param("name")
    overview = await view.lw.alocks(pattern_of(name))
    if not overview.locks and name:  # its special characters may belong to a name
        overview = await view.lw.alocks(f"*{literal(display(typed(name)))}*")
    # locks with waiters come first
    rows = sorted(overview.locks, key=lambda lock: (-len(lock.line) - lock.more_waiters, lock.name, lock.kind))
    names = OwnerNames(overview)

    def label(owner: str) -> str:
        holder = names.holder(owner)
        return f"{short_id(holder.job)}{names.number(owner)} {holder.task}" if holder.job else names(owner)

    return {
        "rows": rows[:_SHOWN],
        "many": len(rows),
        "names": names,
        "deadlocks": overview.deadlocks,
        "graph": graph(overview, label),
    }


def pattern_of(asked: str) -> str:
    """Return the pattern for a search text: a pattern, or part of a name; an empty text matches all."""
    if any(sign in asked for sign in "*?["):
        return asked
    return f"*{display(typed(asked))}*" if asked else "*"


async def release(view: View, form: Form) -> str:
    """Take a lock away from its holder; the next waiter gets it."""
    key, name, fence = form.get("key", ""), form.get("name", ""), form.get("fence", "")
    overview = await view.lw.alocks()
    lock = next((each for each in overview.locks if each.key == key and each.holders), None)
    if lock is None:
        raise NotFound(f"{name} is no longer held: nothing was released.")
    name = lock.name
    if _words(form.get("typed", "")) not in (_words(name), _words(visible(name))):
        raise ConfigError(f"Type {name} to release it: nothing was released.")
    if str(max(held.fence for held in lock.holders)) != fence:
        raise ConfigError(f"{name} has another holder now: nothing was released.")
    released = await _take_away(view.lw, lock)
    return f"Released {name} from {several(released, 'holder')}."


def _words(name: str) -> list[str]:
    """Return the parts of a name that a person can type: spaces look alike, and special characters have no key."""
    return "".join(sign if sign.isprintable() else " " for sign in name).split()


async def _take_away(lw: Lockwork, lock: LockSnapshot) -> int:
    if lock.kind == "lock":
        return int(await lw.lock(typed(lock.name)).aforce_release())
    if lock.kind == "queuelock":
        queue, _, name = lock.key.partition("{q:")[2].partition("}:lock:")
        return int(await lw.queue(queue_of(queue)).lock(typed(shown(name))).aforce_release())
    if lock.kind == "rwlock":
        return await lw.rwlock(typed(lock.name)).aforce_release()
    if lock.kind == "semaphore":
        return await lw.semaphore(typed(lock.name), max(1, lock.capacity)).aforce_release()
    raise ConfigError(f"Only its holder can release {lock.name}, because it is a lock on several servers.")


PAGE = Page("locks", "/locks", "Locks", read, {"release": release}, key="l")
