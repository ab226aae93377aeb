"""Metrics that several pages show, in the shown time range."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Hashable
from typing import TypeVar, cast

from msgspec import Struct

from lockwork.dashboard.time_range import TimeRange
from lockwork.telemetry.metrics import Activity, MetricPoint, MetricSeries

T = TypeVar("T")

_SPAN_FRESH = {"24h": 15.0, "7d": 60.0}
"""Seconds that hourly metrics are cached."""


class PeriodMetrics(Struct, frozen=True):
    """Metrics of the shown time range."""

    whole: MetricSeries
    """Metrics of the whole time range."""
    part: MetricSeries
    """Metrics of the chosen part; of the whole range if no part is chosen."""
    tasks: dict[tuple[str, str], MetricPoint]
    """Metrics of the chosen part, by queue and task."""

    @classmethod
    def of(cls, found: Activity, period: TimeRange) -> PeriodMetrics:
        """Sum up the activity of the time range."""
        whole, cut = found.series(), period.cut(found)
        return cls(whole, cut.series() if period.brush else whole, cut.by_task())


class KnownMetrics:
    """Caches hourly metrics, which change little in a minute and are expensive to read for a week."""

    def __init__(self) -> None:
        self._found: dict[Hashable, tuple[float, object]] = {}

    async def read(self, span: str, what: Hashable, read: Callable[[], Awaitable[T]]) -> T:
        """Return the cached value of this span, or read it."""
        lasts = _SPAN_FRESH.get(span)
        if lasts is None:
            return await read()
        now = time.monotonic()
        self._found = {key: entry for key, entry in self._found.items() if entry[0] > now}
        if (span, what) not in self._found:
            self._found[span, what] = (now + lasts, await read())
        return cast("T", self._found[span, what][1])
