"""Stocks: what is sold, reserved and left, and how fast."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lockwork.dashboard.page import Page, View
from lockwork.protocol.queues.stock import MOST_MINUTES, StockMinute


async def read(view: View) -> dict[str, Any]:
    """Read all stocks, those of one queue together."""
    stocks = await view.lw.astocks(minutes=MOST_MINUTES)
    return {
        "stocks": stocks,
        "charts": {(each.queue, each.name): bars(each.minutes) for each in stocks if each.minutes},
        "many": MOST_MINUTES,
    }


def bars(minutes: Sequence[StockMinute]) -> list[tuple[str, int, float, float]]:
    """Return the bars of a chart of 24 in height: what, minute, y and height; sold ones stand before reserved ones."""
    top = max((max(each) for each in minutes), default=0)
    return [
        (kind, at, round(24 - 24 * units / top, 1), round(24 * units / top, 1))
        for kind, counts in (
            ("reserved", [each.reserved for each in minutes]),
            ("sold", [each.sold for each in minutes]),
        )
        for at, units in enumerate(counts)
        if units
    ]


PAGE = Page("stocks", "/stocks", "Stocks", read, key="n")
