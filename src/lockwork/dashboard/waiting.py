"""The wait-for graph: waiters on the left, the owners that they wait for on the right."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from msgspec import Struct

from lockwork.dashboard.layers import Line, layered
from lockwork.protocol.locks.overview import Overview

_MOST = 24
"""Maximum boxes of the graph; a larger graph is only listed."""
_ALIKE = 3
"""Number of waiters for the same owner that share one box."""
WIDE, HIGH, MARGIN = 208, 44, 8


class GraphNode(Struct, frozen=True):
    """An owner, or several waiters for the same owner, at a position."""

    label: str
    owners: tuple[str, ...]
    lock: str
    """Lock that it waits for; empty if it does not wait."""
    x: float
    y: float
    stuck: bool


class Arrow(Struct, frozen=True):
    """An arrow from a waiter to an owner."""

    line: Line
    stuck: bool


class Graph(Struct, frozen=True):
    """A picture; `left_out` owners are not in it."""

    nodes: list[GraphNode]
    arrows: list[Arrow]
    width: float
    height: float
    left_out: int


def graph(overview: Overview, name: Callable[[str], str]) -> Graph | None:
    """Lay out the wait-for graph; return None if no owner waits."""
    edges = {(edge.waiter, edge.blocker): edge.resource for edge in overview.waits if not edge.ahead}
    if not edges:
        return None
    stuck = {owner for each in overview.deadlocks for owner in each.members}
    boxes = _boxes(edges, stuck)
    visible_boxes = sorted(boxes, key=lambda box: box not in stuck)[:_MOST]
    lines = [pair for pair in edges if pair[0] in visible_boxes and pair[1] in visible_boxes]
    drawing = layered(visible_boxes, lines, WIDE, HIGH)
    locks = {waiter: lock for (waiter, _), lock in edges.items()}
    nodes = [
        GraphNode(
            name(box) if len(boxes[box]) == 1 else f"{len(boxes[box])} waiters",
            boxes[box],
            locks.get(box, ""),
            *drawing.places[box],
            box in stuck,
        )
        for box in visible_boxes
    ]
    left_out = sum(len(boxes[box]) for box in boxes if box not in visible_boxes)
    arrows = [Arrow(line, {line.start, line.end} <= stuck) for line in drawing.lines]
    arrows.sort(key=lambda arrow: arrow.stuck)
    return Graph(nodes, arrows, drawing.width + 2 * MARGIN, drawing.height + 2 * MARGIN, left_out)


def _boxes(edges: dict[tuple[str, str], str], stuck: set[str]) -> dict[str, tuple[str, ...]]:
    """Return the owners by the first owner of their box: they wait for the same owner, and none waits for them."""
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
