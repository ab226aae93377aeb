"""Queues: their jobs by place, throughput, workers, and limits."""

from __future__ import annotations

import asyncio
from typing import Any

from lockwork.dashboard.page import Form, Page, View
from lockwork.dashboard.pages.tasks import done_by_queue
from lockwork.inspection.overview import Part
from lockwork.words import several

_SORTS = {
    "name": lambda queue: queue.name,
    "ready": lambda queue: queue.total("ready"),
    "running": lambda queue: queue.total("running"),
    "scheduled": lambda queue: queue.total("scheduled"),
    "dead": lambda queue: queue.total("dead"),
    "workers": lambda queue: len(queue.workers),
}


async def read(view: View) -> dict[str, Any]:
    """Read all queues, in the requested order."""
    overview, metrics = await asyncio.gather(view.overview(Part.QUEUES | Part.AGES), view.metrics())
    queues = overview.queues
    chosen = _SORTS.get(view.param("sort"))
    if chosen is not None:
        queues.sort(key=chosen, reverse=view.param("down") == "1")
    return {"queues": queues, "done": done_by_queue(metrics.tasks)}


async def pause_all(view: View, _: Form) -> str:
    """Pause every queue."""
    queues = await view.queues()
    for queue in queues:
        for partition in queue.partitions:
            await view.lw.queue(partition.name).apause()
    return f"Paused {several(len(queues), 'queue')}."


async def resume_all(view: View, _: Form) -> str:
    """Resume every queue."""
    queues = await view.queues()
    for queue in queues:
        for partition in queue.partitions:
            await view.lw.queue(partition.name).aresume()
    return f"Resumed {several(len(queues), 'queue')}."


PAGE = Page(
    "queues", "/queues", "Queues", read, {"pause_all": pause_all, "resume_all": resume_all}, key="q", ranged=True
)
