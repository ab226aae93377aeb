"""Stocks: units sold, reserved and left, and the rates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lockwork.dashboard.page import Page, View
from lockwork.protocol.stock.stock import MOST_MINUTES, StockMinute


async def read(view: View) -> dict[str, Any]:
    """Read all stocks, sorted by queue."""
    stocks = await view.lw.astocks(minutes=MOST_MINUTES)
    return {
        "stocks": stocks,
        "charts": {(each.queue, each.name): bars(each.minutes) for each in stocks if each.minutes},
        "tops": {(each.queue, each.name): top(each.minutes) for each in stocks if each.minutes},
        "many": MOST_MINUTES,
    }


def bars(minutes: Sequence[StockMinute]) -> list[tuple[str, int, float, float]]:
    """Return the bars of a chart of height 24: kind, minute, y and height; sold ones come before reserved ones."""
    most = top(minutes)
    return [
        (kind, at, round(24 - 24 * units / most, 1), round(24 * units / most, 1))
        for kind, counts in (
            ("reserved", [each.reserved for each in minutes]),
            ("sold", [each.sold for each in minutes]),
        )
        for at, units in enumerate(counts)
        if units
    ]


def top(minutes: Sequence[StockMinute]) -> int:
    """Return the maximum units reserved or sold in one minute: the height of the chart."""
    return max((max(each) for each in minutes), default=0)


PAGE = Page("stocks", "/stocks", "Stocks", read, key="n")
