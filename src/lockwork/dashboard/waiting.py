"""The graph of who waits for whom, laid out in columns: those who wait on the left, what they wait for on the right."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

from lockwork.protocol.locks.overview import Overview, read

_MOST = 24
"""Owners that the graph shows; a larger one is a list, and not a picture."""
_WIDE, _HIGH, _GAP_X, _GAP_Y = 184, 32, 96, 12


@dataclass(frozen=True, slots=True)
class GraphNode:
    """An owner, at a place."""

    label: str
    owner: str
    x: int
    y: int
    stuck: bool


@dataclass(frozen=True, slots=True)
class Arrow:
    """Who waits for whom, with the lock between them."""

    path: str
    label: str
    stuck: bool
    x: int
    y: int


@dataclass(frozen=True, slots=True)
class Graph:
    """A picture; `left_out` owners are not on it."""

    nodes: list[GraphNode]
    arrows: list[Arrow]
    width: int
    height: int
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
    columns = _columns(shown, [pair for pair in edges if pair[0] in shown and pair[1] in shown])
    high = max(map(len, columns))
    places: dict[str, tuple[int, int]] = {}
    for at, column in enumerate(columns):
        top = (high - len(column)) * (_HIGH + _GAP_Y) // 2
        for row, owner in enumerate(column):
            places[owner] = (at * (_WIDE + _GAP_X), top + row * (_HIGH + _GAP_Y))
    return Graph(
        [GraphNode(name(owner), owner, *places[owner], owner in stuck) for owner in shown],
        [
            _arrow(places[waiter], places[blocker], resource, waiter in stuck and blocker in stuck)
            for (waiter, blocker), resource in edges.items()
            if waiter in places and blocker in places
        ],
        len(columns) * (_WIDE + _GAP_X) - _GAP_X + 48,
        high * (_HIGH + _GAP_Y) + 24,
        len(owners) - len(shown),
    )


def _columns(owners: list[str], edges: list[tuple[str, str]]) -> list[list[str]]:
    """Put each owner one column left of the farthest that it waits for; a round is cut where it is entered."""
    waits: defaultdict[str, list[str]] = defaultdict(list)
    for waiter, blocker in edges:
        waits[waiter].append(blocker)
    depths: dict[str, int] = {}

    def depth(owner: str, above: frozenset[str]) -> int:
        if owner not in depths:
            further = [depth(each, above | {owner}) + 1 for each in waits[owner] if each not in above and each != owner]
            depths[owner] = max(further, default=0)
        return depths[owner]

    for owner in owners:
        depth(owner, frozenset())
    deepest = max(depths.values())
    columns: list[list[str]] = [[] for _ in range(deepest + 1)]
    for owner in owners:
        columns[deepest - depths[owner]].append(owner)
    return [column for column in columns if column]


def _arrow(start: tuple[int, int], end: tuple[int, int], resource: str, stuck: bool) -> Arrow:
    middle = _HIGH // 2
    if start[0] < end[0]:
        x1, y1, x2, y2 = start[0] + _WIDE, start[1] + middle, end[0], end[1] + middle
        bend = (x2 - x1) // 2
        path = f"M{x1} {y1}C{x1 + bend} {y1} {x2 - bend} {y2} {x2} {y2}"
        return Arrow(path, resource, stuck, (x1 + x2) // 2, (y1 + y2) // 2 - 6)
    # back to the left, or within a column: below both
    x1, y1, x2, y2 = start[0] + _WIDE // 2, start[1] + _HIGH, end[0] + _WIDE // 2, end[1] + _HIGH
    low = max(y1, y2) + 28
    return Arrow(f"M{x1} {y1}C{x1} {low} {x2} {low} {x2} {y2}", resource, stuck, (x1 + x2) // 2, low - 2)


def _short(owner: str) -> str:
    holder = read(owner)
    return f"{holder.host}/{holder.pid} {holder.label}".strip() if holder.host else owner
