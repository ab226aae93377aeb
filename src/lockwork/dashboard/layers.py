"""Lays a directed graph out in layers: edges go to the right, boxes never overlap, and lines pass between the boxes."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import accumulate, groupby, pairwise

from msgspec import Struct

GAP_X, GAP_Y = 64, 16
_LINE = 4
"""Height of a line in a layer that it crosses."""
_SWEEPS = 6
_APART = 8
"""Vertical distance from the middle of a box: back edges end below the middle, forward edges above it."""
_Edge = tuple[str, str]
_Passing = tuple[str, str, int]
"""An edge in a layer that it only crosses."""
_Point = str | _Passing


class Line(Struct, frozen=True):
    """An edge as an SVG path from left to right.

    A `back` edge closes a cycle: it goes from right to left, so that its path begins at its end.
    """

    start: str
    end: str
    path: str
    back: bool


class Drawing(Struct, frozen=True):
    """The upper left corner of each box, the lines between them, and the total size."""

    places: dict[str, tuple[float, float]]
    lines: list[Line]
    width: float
    height: float


def layered(nodes: Sequence[str], edges: Iterable[_Edge], wide: float, high: float) -> Drawing:
    """Lay out boxes of one size in layers; each node is behind all its predecessors.

    Sugiyama's method: cut cycles, rank by the longest path, order by barycenters, place close to neighbors.
    """
    distinct_edges = [edge for edge in dict.fromkeys(edges) if edge[0] != edge[1]]
    forward, back = _cut(nodes, distinct_edges)
    ranks = _ranks(nodes, [*forward, *((end, start) for start, end in back)])
    ways = {edge: _way(edge, ranks) for edge in distinct_edges}
    links = [pair for way in ways.values() for pair in pairwise(way)]
    layers = _order(_layers(nodes, ranks, ways.values()), links)
    centers = _centers(layers, links, high)
    step = wide + GAP_X
    places = {node: (ranks[node] * step, centers[node] - high / 2) for node in nodes}
    lines = []
    for edge, way in ways.items():
        shift = _APART if edge in back else -_APART if edge[::-1] in back else 0
        lines.append(_line(edge, way, shift, ranks, centers, wide))
    width = max((x + wide for x, _ in places.values()), default=0.0)
    height = max((y + high for _, y in places.values()), default=0.0)
    return Drawing(places, lines, width, height)


def _cut(nodes: Sequence[str], edges: list[_Edge]) -> tuple[list[_Edge], list[_Edge]]:
    """Split the edges into an acyclic set, and the edges that close cycles."""
    after: defaultdict[str, list[str]] = defaultdict(list)
    for start, end in edges:
        after[start].append(end)
    back: set[_Edge] = set()
    open_nodes, visited_nodes = set[str](), set[str]()
    for first in nodes:
        stack = [] if first in visited_nodes else [(first, iter(after[first]))]
        visited_nodes.add(first)
        open_nodes.update(node for node, _ in stack)
        while stack:
            node, further = stack[-1]
            for end in further:
                if end in open_nodes:
                    back.add((node, end))
                elif end not in visited_nodes:
                    visited_nodes.add(end)
                    open_nodes.add(end)
                    stack.append((end, iter(after[end])))
                    break
            else:
                open_nodes.discard(node)
                stack.pop()
    return [edge for edge in edges if edge not in back], [edge for edge in edges if edge in back]


def _ranks(nodes: Sequence[str], edges: Sequence[_Edge]) -> dict[str, int]:
    """Rank each node by the longest path to it; a node without predecessors is right before its first successor."""
    after: defaultdict[str, list[str]] = defaultdict(list)
    in_degrees = dict.fromkeys(nodes, 0)
    for start, end in edges:
        after[start].append(end)
        in_degrees[end] += 1
    roots = [node for node in nodes if not in_degrees[node]]
    ranks = dict.fromkeys(nodes, 0)
    ready = list(roots)
    for node in ready:  # `ready` grows
        for end in after[node]:
            ranks[end] = max(ranks[end], ranks[node] + 1)
            in_degrees[end] -= 1
            if not in_degrees[end]:
                ready.append(end)
    for node in roots:
        ranks[node] = min((ranks[end] for end in after[node]), default=1) - 1
    return ranks


def _way(edge: _Edge, ranks: dict[str, int]) -> list[_Point]:
    """Return the points of an edge from left to right, one per layer."""
    left, right = sorted(edge, key=ranks.__getitem__)
    return [left, *((*edge, rank) for rank in range(ranks[left] + 1, ranks[right])), right]


def _layers(nodes: Sequence[str], ranks: dict[str, int], ways: Iterable[list[_Point]]) -> list[list[_Point]]:
    layers: list[list[_Point]] = [[] for _ in range(max(ranks.values(), default=-1) + 1)]
    for node in nodes:
        layers[ranks[node]].append(node)
    for way in ways:
        for point in way[1:-1]:
            layers[int(point[2])].append(point)
    return layers


def _order(layers: list[list[_Point]], links: Sequence[tuple[_Point, _Point]]) -> list[list[_Point]]:
    """Sort each layer by the positions of its neighbors, to the right and back; return the best order (fewest
    crossings).
    """
    before, after = _neighbors(links)
    best = [list(layer) for layer in layers]
    fewest = _crossings(best, links)
    for sweep in range(_SWEEPS):
        near, walk = (before, layers) if sweep % 2 == 0 else (after, layers[::-1])
        place: dict[_Point, float] = {}
        for layer in walk:
            means = {
                point: sum(positions) / len(positions)
                if (positions := [place[each] for each in near[point] if each in place])
                else at / max(1, len(layer) - 1)
                for at, point in enumerate(layer)
            }
            if sweep % 4 >= 2:  # swap points on the same level
                layer.reverse()
            layer.sort(key=means.__getitem__)
            place.update((point, at / max(1, len(layer) - 1)) for at, point in enumerate(layer))
        crossings = _crossings(layers, links)
        if crossings < fewest:
            best, fewest = [list(layer) for layer in layers], crossings
    return best


def _crossings(layers: list[list[_Point]], links: Sequence[tuple[_Point, _Point]]) -> int:
    """Count the pairs of lines that cross."""
    place = {point: (number, at) for number, layer in enumerate(layers) for at, point in enumerate(layer)}
    count = 0
    for _, between in groupby(sorted((*place[start], place[end][1]) for start, end in links), lambda link: link[0]):
        ends: list[int] = []
        for _, _, end in between:
            at = bisect_right(ends, end)
            count += len(ends) - at
            ends.insert(at, end)
    return count


def _centers(layers: list[list[_Point]], links: Sequence[tuple[_Point, _Point]], high: float) -> dict[_Point, float]:
    """Return the vertical middle of each point: separate within its layer, and level with its neighbors."""
    before, after = _neighbors(links)
    gaps = [[(_size(one, high) + _size(other, high)) / 2 + GAP_Y for one, other in pairwise(layer)] for layer in layers]
    centers = {
        point: center - total[-1] / 2
        for layer, between in zip(layers, gaps, strict=True)
        for total in [[0.0, *accumulate(between)]]
        for point, center in zip(layer, total, strict=False)
    }
    for sweep in range(_SWEEPS):
        near = before if sweep % 2 == 0 else after
        for layer, between in list(zip(layers, gaps, strict=True))[:: 1 if sweep % 2 == 0 else -1]:
            ideal_centers = [
                sum(centers[each] for each in near[point]) / len(near[point]) if near[point] else centers[point]
                for point in layer
            ]
            centers.update(zip(layer, _apart(ideal_centers, between), strict=True))
    top = min((center - _size(point, high) / 2 for point, center in centers.items()), default=0.0)
    return {point: float(round(center - top)) for point, center in centers.items()}


def _apart(wanted: Sequence[float], gaps: Sequence[float]) -> list[float]:
    """Return the positions nearest to the wanted positions, with their order and gaps (pool adjacent violators)."""
    moved = [0.0, *accumulate(gaps)]
    blocks: list[tuple[float, int]] = []
    for place, offset in zip(wanted, moved, strict=False):
        blocks.append((place - offset, 1))
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            (one, many), (other, more) = blocks[-2:]
            blocks[-2:] = [((one * many + other * more) / (many + more), many + more)]
    level = [mean for mean, count in blocks for _ in range(count)]
    return [mean + offset for mean, offset in zip(level, moved, strict=False)]


def _neighbors(
    links: Sequence[tuple[_Point, _Point]],
) -> tuple[defaultdict[_Point, list[_Point]], defaultdict[_Point, list[_Point]]]:
    before: defaultdict[_Point, list[_Point]] = defaultdict(list)
    after: defaultdict[_Point, list[_Point]] = defaultdict(list)
    for start, end in links:
        before[end].append(start)
        after[start].append(end)
    return before, after


def _size(point: _Point, high: float) -> float:
    return high if isinstance(point, str) else _LINE


def _line(
    edge: _Edge,
    way: list[_Point],
    shift: int,
    ranks: dict[str, int],
    centers: dict[_Point, float],
    wide: float,
) -> Line:
    levels = [centers[point] + (shift if isinstance(point, str) else 0) for point in way]
    x, y = ranks[str(way[0])] * (wide + GAP_X) + wide, levels[0]
    path = f"M{x:g} {y:g}"
    for point, level in zip(way[1:], levels[1:], strict=True):
        path += f"C{x + GAP_X / 2:g} {y:g} {x + GAP_X / 2:g} {level:g} {x + GAP_X:g} {level:g}"
        x, y = x + GAP_X, level
        if not isinstance(point, str):
            x += wide
            path += f"H{x:g}"
    return Line(*edge, path, shift > 0)
