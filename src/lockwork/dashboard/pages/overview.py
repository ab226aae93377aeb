"""Overview: what is wrong, how much is done, and the queues."""

from __future__ import annotations

from typing import Any

from lockwork.dashboard.page import Page, View
from lockwork.dashboard.reading import read_queues


async def read(view: View) -> dict[str, Any]:
    """Read the queues."""
    return {"queues": await read_queues(view.lw)}


PAGE = Page("overview", "/", "Overview", read, key="o", ranged=True)
