"""The geometry of inline bars, sparklines and stacked charts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from lockwork.telemetry.metrics import MetricPoint, MetricSeries


def bar_parts(counts: Sequence[tuple[str, int]], width: float = 100.0) -> list[tuple[str, float, float]]:
    """Return (state, x, width) of each part of a bar; each nonzero part is visible."""
    there = [(state, count) for state, count in counts if count > 0]
    total = sum(count for _, count in there)
    least = 2.0
    width = max(width, least * len(there))
    widths = [max(least, width * count / total) for _, count in there]
    over = sum(widths) - width
    if over > 0:  # take it from the widest part
        widest = max(range(len(widths)), key=widths.__getitem__)
        widths[widest] -= over
    parts, x = [], 0.0
    for (state, _), wide in zip(there, widths, strict=True):
        parts.append((state, round(x, 2), round(wide, 2)))
        x += wide
    return parts


def spark_points(values: Sequence[float | None], width: float = 96.0, height: float = 24.0) -> list[str]:
    """Return the points of a sparkline from left to right, one text for each stretch without gaps."""
    numbers = [each for each in values if each is not None]
    if not numbers:
        return []
    top = max(*numbers, 0.0) or 1.0
    step = width / max(len(values) - 1, 1)
    stretches: list[list[str]] = [[]]
    for at, each in enumerate(values):
        if each is None:
            stretches.append([])
        else:
            stretches[-1].append(f"{at * step:.1f},{height - 1 - (height - 2) * each / top:.1f}")
    return [" ".join(each) for each in stretches if each]


PARTS = (("done", "succeeded"), ("retried", "retried"), ("dead", "dead"))
"""The stacked parts of a chart of jobs: their words, and fields of MetricPoint."""


class Mark(Struct, frozen=True):
    """An event at a moment of a chart."""

    at: datetime
    kind: str
    """A state, which selects icon and color."""
    text: str


class Stacked(Struct, frozen=True):
    """A chart of stacked counts: its data for the browser's script, and rectangles for a browser without."""

    data: str
    rectangles: list[tuple[str, float, float, float, float]]
    """Kind, x, y, width, height in a box of 1000 by 200."""
    top: int
    """Highest sum."""
    totals: list[tuple[str, int]]
    """Words and their counts in the chosen part."""
    marks: Sequence[Mark] = ()


def stacked(
    points: Sequence[MetricPoint], part: MetricSeries, parts: Sequence[tuple[str, str]], marks: Sequence[Mark] = ()
) -> Stacked:
    """Stack fields of points; `parts` are words and fields, the bottom one last.

    part: the chosen part of the points. marks: only marks within the points are used.
    """
    marks = [mark for mark in marks if points and mark.at >= points[0].at]
    columns = [[int(getattr(point, field)) for point in points] for _, field in parts]
    sums = [sum(column[at] for column in columns) for at in range(len(points))]
    top = max(sums, default=0)
    wide = 1000 / max(1, len(points))
    rectangles = []
    for at in range(len(points)):
        below = 0
        for (word, _), column in zip(reversed(parts), reversed(columns), strict=True):
            high = 200 * column[at] / top if top else 0.0
            below_high = 200 * below / top if top else 0.0
            if high:
                rectangles.append(
                    (word, round(at * wide, 1), round(200 - below_high - high, 1), round(wide * 0.8, 1), round(high, 1))
                )
            below += column[at]
    document = {
        "x": [int(point.at.timestamp()) for point in points],
        "seconds": points[0].seconds if points else 60,
        "names": [word for word, _ in parts],
        "columns": columns,
        "marks": [(mark.at.timestamp(), mark.kind) for mark in marks],
    }
    if part.points is not points:
        document["brush"] = [int(part.points[0].at.timestamp()), int(part.points[-1].at.timestamp())]
    totals = [(word, int(getattr(part.total, field))) for word, field in parts]
    return Stacked(json.dumps(document, separators=(",", ":")), rectangles, top, totals, marks)
