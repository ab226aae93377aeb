"""Stocks: what is sold, reserved and left."""

from __future__ import annotations

from typing import Any

from lockwork.dashboard.page import Page, View


async def read(view: View) -> dict[str, Any]:
    """Read all stocks, those of one queue together."""
    return {"stocks": await view.lw.astocks()}


PAGE = Page("stocks", "/stocks", "Stocks", read, key="n")
