"""The graph of who waits for whom: those who wait on the left, what they wait for on the right."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

from lockwork.dashboard.layers import Line, layered
from lockwork.protocol.locks.overview import Overview, read

_MOST = 24
"""Boxes that the graph shows; a larger one is a list, and not a picture."""
_ALIKE = 3
"""So many who wait for the same are one box."""
WIDE, HIGH, MARGIN = 208, 44, 8


@dataclass(frozen=True, slots=True)
class GraphNode:
    """An owner, or several who wait for the same, at a place."""

    label: str
    owners: tuple[str, ...]
    lock: str
    """What it waits for; empty if it waits for nothing."""
    x: float
    y: float
    stuck: bool


@dataclass(frozen=True, slots=True)
class Arrow:
    """Who waits for whom."""

    line: Line
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
    boxes = _boxes(edges, stuck)
    shown = sorted(boxes, key=lambda box: box not in stuck)[:_MOST]
    lines = [pair for pair in edges if pair[0] in shown and pair[1] in shown]
    drawn = layered(shown, lines, WIDE, HIGH)
    locks = {waiter: lock for (waiter, _), lock in edges.items()}
    nodes = [
        GraphNode(
            name(box) if len(boxes[box]) == 1 else f"{len(boxes[box])} waiters",
            boxes[box],
            locks.get(box, ""),
            *drawn.places[box],
            box in stuck,
        )
        for box in shown
    ]
    left_out = sum(len(boxes[box]) for box in boxes if box not in shown)
    arrows = [Arrow(line, {line.start, line.end} <= stuck) for line in drawn.lines]
    arrows.sort(key=lambda arrow: arrow.stuck)
    return Graph(nodes, arrows, drawn.width + 2 * MARGIN, drawn.height + 2 * MARGIN, left_out)


def _boxes(edges: dict[tuple[str, str], str], stuck: set[str]) -> dict[str, tuple[str, ...]]:
    """Return the owners by the first of those that share a box: that wait for the same, and that nobody waits for."""
    blockers = {blocker for _, blocker in edges}
    ahead: defaultdict[str, set[str]] = defaultdict(set)
    for (waiter, blocker), lock in edges.items():
        ahead[waiter] |= {blocker, lock}
    alike: defaultdict[object, list[str]] = defaultdict(list)
    for owner in dict.fromkeys(owner for pair in edges for owner in pair):
        alone = owner in blockers or owner in stuck
        alike[owner if alone else frozenset(ahead[owner])].append(owner)
    boxes: dict[str, tuple[str, ...]] = {}
    for owners in alike.values():
        boxes |= {owners[0]: tuple(owners)} if len(owners) >= _ALIKE else {owner: (owner,) for owner in owners}
    return boxes


def _short(owner: str) -> str:
    holder = read(owner)
    return f"{holder.host}/{holder.pid} {holder.label}".strip() if holder.host else owner
