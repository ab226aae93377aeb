"""Workers: which processes work on which queues, and how busy they are."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from lockwork.dashboard.page import Page, View
from lockwork.dashboard.reading import read_queues
from lockwork.protocol.queues.status import WorkerInfo


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """One worker process with its queues."""

    info: WorkerInfo
    queues: list[str]
    running: int


async def read(view: View) -> dict[str, Any]:
    """Read the worker processes of all queues."""
    wanted = view.param("queue")
    sessions: defaultdict[str, list[tuple[str, WorkerInfo]]] = defaultdict(list)
    queues = await read_queues(view.lw)
    for queue in queues:
        for partition in queue.partitions:
            for info in partition.workers:
                sessions[info.session].append((queue.name, info))
    rows = [
        WorkerRow(found[0][1], sorted({name for name, _ in found}), sum(info.running for _, info in found))
        for found in sessions.values()
    ]
    rows = [row for row in rows if not wanted or wanted in row.queues]
    return {"rows": sorted(rows, key=lambda row: (row.info.host, row.info.pid))}


PAGE = Page("workers", "/workers", "Workers", read, key="w")
