"""Limiters: the remaining room of rate limiters, semaphores and limits of queues, and their waiters."""

from __future__ import annotations

import asyncio
from typing import Any

from lockwork.dashboard.page import Page, View
from lockwork.dashboard.pages.locks import pattern_of

_SHOWN = 100


async def read(view: View) -> dict[str, Any]:
    """Read the limiters and semaphores whose names match, and the queues with limits."""
    name = view.param("name")
    pattern = pattern_of(name)
    limiters, locks, queues = await asyncio.gather(
        view.lw.alimiters(pattern, limit=_SHOWN), view.lw.alocks(pattern), view.queues()
    )
    semaphores = [lock for lock in locks.locks if lock.kind == "semaphore"]
    semaphores.sort(key=lambda lock: (-len(lock.line) - lock.more_waiters, lock.name))
    limited = [
        each
        for queue in queues
        for each in queue.partitions
        if name in each.name and (each.limits.rate or each.limits.concurrency or each.limits.size is not None)
    ]
    return {
        # entries with waiters come first
        "limiters": sorted(limiters.limiters, key=lambda each: (-each.waiting, each.name)),
        "complete": limiters.complete,
        "semaphores": semaphores[:_SHOWN],
        "more_semaphores": max(0, len(semaphores) - _SHOWN),
        "queues": limited,
    }


PAGE = Page("limiters", "/limiters", "Limiters", read, key="m")
