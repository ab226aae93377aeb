"""The geometry of inline bars and sparklines."""

from __future__ import annotations

from collections.abc import Sequence


def bar_parts(counts: Sequence[tuple[str, int]], width: float = 100.0) -> list[tuple[str, float, float]]:
    """Return (state, x, width) of each part of a bar; a part that is there is seen, however small."""
    there = [(state, count) for state, count in counts if count > 0]
    total = sum(count for _, count in there)
    least = 2.0
    widths = [max(least, width * count / total) for _, count in there]
    over = sum(widths) - width
    if over > 0:  # take it from the widest, which can spare it
        widest = max(range(len(widths)), key=widths.__getitem__)
        widths[widest] -= over
    parts, x = [], 0.0
    for (state, _), wide in zip(there, widths, strict=True):
        parts.append((state, round(x, 2), round(wide, 2)))
        x += wide
    return parts


def spark_points(values: Sequence[float | None], width: float = 96.0, height: float = 24.0) -> list[str]:
    """Return the points of a sparkline from left to right, one text for each stretch without gaps."""
    known = [each for each in values if each is not None]
    if not known:
        return []
    top = max(*known, 0.0) or 1.0
    step = width / max(len(values) - 1, 1)
    stretches: list[list[str]] = [[]]
    for at, each in enumerate(values):
        if each is None:
            stretches.append([])
        else:
            stretches[-1].append(f"{at * step:.1f},{height - 1 - (height - 2) * each / top:.1f}")
    return [" ".join(each) for each in stretches if each]
