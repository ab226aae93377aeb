"""One flow: its jobs as a graph, and its progress; cancel its remaining jobs."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime
from typing import Any

from lockwork.dashboard.flow_picture import MARGIN, STATES, picture
from lockwork.dashboard.page import Form, NotFound, Page, View
from lockwork.errors import ConfigError
from lockwork.flows.runs import FlowRun, FlowStatus
from lockwork.ids import made_at
from lockwork.protocol.flows.flow_graph import FlowNode
from lockwork.words import short_id

_MOST = 2000
"""Maximum jobs that the page reads."""
_ROWS = 100


async def read(view: View) -> dict[str, Any]:
    """Read the flow and its jobs, or the jobs of the requested box of the graph."""
    run, status = await _found(view)
    nodes = await run.agraph(_MOST)
    drawing = picture(nodes)
    chosen = view.number("box", 0, 1 << 40)
    box = next((each for each in drawing.boxes if each.nodes[0].number == chosen), None) if drawing else None
    listed = sorted(box.nodes if box else nodes, key=lambda node: (STATES.index(node.state), node.number))
    parents: defaultdict[int, list[FlowNode]] = defaultdict(list)
    for node in nodes:
        for child in node.children:
            parents[child].append(node)
    enqueued_ms = made_at(run.id)
    return {
        "run": run,
        "title": " → ".join(dict.fromkeys(node.task for node in (nodes[:1] + nodes[-1:]) if node.task)) or "Flow",
        "status": status,
        "enqueued": None if enqueued_ms is None else datetime.fromtimestamp(enqueued_ms / 1000, UTC),
        "drawn": drawing,
        "margin": MARGIN,
        "box": box,
        "jobs": listed[:_ROWS],
        "listed": len(listed),
        "unread": status.jobs - len(nodes),
        "parents": parents,
        "spans": any(node.queue for node in nodes),
    }


async def cancel(view: View, _: Form) -> str:
    """Cancel all jobs of the flow that have not ended."""
    run, status = await _found(view)
    if not await run.acancel():
        raise ConfigError(f"Flow {short_id(run.id)} has already ended: nothing was cancelled.")
    remaining = status.jobs - status.ended
    return f"Flow {short_id(run.id)} is cancelled, with its {remaining:,} jobs that had not ended."


async def _found(view: View) -> tuple[FlowRun, FlowStatus]:
    """Return the flow, in the queue of the address, or in any."""
    id, queue = view.in_path("id"), view.param("queue")
    for name in [queue] if queue else await view.lw.aqueues():
        try:
            run = view.lw.flow(id=id, queue=name)
        except ConfigError as error:  # no flow or queue can have this name
            raise NotFound(str(error)) from None
        status = await run.ainspect()
        if status.state != "unknown":
            return run, status
    raise NotFound(f"Nothing is known of flow {id}: its results have expired, or it never existed.")


PAGE = Page("flow", "/flow/{id:path}", "Flow", read, {"cancel": cancel}, rail=False, within="flows")
