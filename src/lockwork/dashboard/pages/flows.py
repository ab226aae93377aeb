"""Flows: their progress, and the failed ones."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any

from lockwork.dashboard.page import Page, View
from lockwork.flows.runs import FlowState, FlowSummary
from lockwork.protocol.keys import base_queue

_MOST = 1000
"""Maximum flows that are sorted by state."""
_PAGE = 50
_SEARCHED = 100_000
"""Maximum stored entries that the page reads across all queues."""
_GROUPS: dict[str, tuple[str, tuple[FlowState, ...]]] = {
    "failed": ("Failed", ("failed",)),
    "running": ("Running", ("running", "compensating")),
    "succeeded": ("Succeeded", ("succeeded",)),
    "cancelled": ("Cancelled", ("cancelled",)),
}


async def read(view: View) -> dict[str, Any]:
    """Read the newest flows of all queues, or of one, in the requested state."""
    queue, chosen = view.param("queue"), view.param("state")
    names = [name for name in await view.queue_names() if queue in ("", name, base_queue(name))]
    budget = max(1000, _SEARCHED // max(1, len(names)))
    pages = await asyncio.gather(*(view.lw.aflows(name, limit=_MOST, budget=budget) for name in names))
    flows = sorted((flow for page in pages for flow in page.flows), key=lambda flow: flow.id, reverse=True)[:_MOST]
    states = Counter(flow.status.state for flow in flows)
    chosen_states = _GROUPS[chosen][1] if chosen in _GROUPS else None
    matching = [flow for flow in flows if chosen_states is None or flow.status.state in chosen_states]
    first = view.number("after", 0, _MOST)
    rows = matching[first : first + _PAGE]
    return {
        "rows": list(zip(rows, await _tasks(view, rows), strict=True)),
        "many": len(flows),
        "more": any(page.total is None for page in pages) or len(flows) == _MOST,
        "previous": max(0, first - _PAGE) if first else None,
        "next": first + _PAGE if first + _PAGE < len(matching) else None,
        "tabs": [
            ("", "All", len(flows)),
            *((name, label, sum(states[state] for state in of)) for name, (label, of) in _GROUPS.items()),
        ],
    }


async def _tasks(view: View, rows: Sequence[FlowSummary]) -> list[list[str]]:
    """Return the tasks of the first and last job of each flow, if the server knows them."""

    async def ends(flow: FlowSummary) -> list[str]:
        run = view.lw.flow(id=flow.id, queue=flow.queue)
        numbers = sorted({1, max(1, flow.status.jobs)})
        graphs = await asyncio.gather(*(run.agraph(1, first=number) for number in numbers))
        return [node.task for nodes in graphs for node in nodes if node.task]

    return await asyncio.gather(*map(ends, rows))


PAGE = Page("flows", "/flows", "Flows", read, key="f")
