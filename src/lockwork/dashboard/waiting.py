"""The graph of who waits for whom: those who wait on the left, what they wait for on the right."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

from lockwork.dashboard.layers import Line, layered
from lockwork.protocol.locks.overview import Overview, read

_MOST = 24
"""Owners that the graph shows; a larger one is a list, and not a picture."""
WIDE, HIGH, MARGIN, _GAP = 184, 32, 8, 160


@dataclass(frozen=True, slots=True)
class GraphNode:
    """An owner, at a place."""

    label: str
    owner: str
    x: float
    y: float
    stuck: bool


@dataclass(frozen=True, slots=True)
class Arrow:
    """Who waits for whom, with the lock between them."""

    line: Line
    label: str
    """Empty if another line from there has it."""
    stuck: bool


@dataclass(frozen=True, slots=True)
class Graph:
    """A picture; `left_out` owners are not on it."""

    nodes: list[GraphNode]
    arrows: list[Arrow]
    width: float
    height: float
    left_out: int


def names_of(overview: Overview) -> Callable[[str], str]:
    """Return what to call an owner: host, process and label, with its number only where it tells two apart."""
    alike: defaultdict[str, set[str]] = defaultdict(set)
    for lock in overview.locks:
        for holder in (*(held.holder for held in lock.holders), *(waiter.holder for waiter in lock.line)):
            owner = holder.owner.partition("~")[0]
            alike[_short(owner)].add(owner)

    def name(owner: str) -> str:
        short = _short(owner)
        return short if len(alike[short]) < 2 else f"{short} #{owner.partition(':')[2].partition(':')[0]}"

    return name


def graph(overview: Overview, name: Callable[[str], str]) -> Graph | None:
    """Lay out who waits for whom; None if nobody waits."""
    edges = {(edge.waiter, edge.blocker): edge.resource for edge in overview.waits if not edge.ahead}
    if not edges:
        return None
    stuck = {owner for each in overview.deadlocks for owner in each.members}
    owners = list(dict.fromkeys(owner for pair in edges for owner in pair))
    owners.sort(key=lambda owner: owner not in stuck)
    shown = owners[:_MOST]
    drawn = layered(shown, [pair for pair in edges if pair[0] in shown and pair[1] in shown], WIDE, HIGH, _GAP)
    return Graph(
        [GraphNode(name(owner), owner, *drawn.places[owner], owner in stuck) for owner in shown],
        _arrows(drawn.lines, edges, stuck),
        drawn.width + 2 * MARGIN,
        drawn.height + 2 * MARGIN,
        len(owners) - len(shown),
    )


def _arrows(lines: list[Line], edges: dict[tuple[str, str], str], stuck: set[str]) -> list[Arrow]:
    arrows: list[Arrow] = []
    labeled: set[tuple[float, float, str]] = set()
    for line in sorted(lines, key=lambda line: {line.start, line.end} <= stuck):
        lock = edges[line.start, line.end]
        mark = (line.x, line.y, lock)
        arrows.append(Arrow(line, "" if mark in labeled else lock, {line.start, line.end} <= stuck))
        labeled.add(mark)
    return arrows


def _short(owner: str) -> str:
    holder = read(owner)
    return f"{holder.host}/{holder.pid} {holder.label}".strip() if holder.host else owner
