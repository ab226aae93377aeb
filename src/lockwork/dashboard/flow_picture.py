"""The picture of a flow: jobs that are alike are one box with counts, and boxes stand in the order of the work."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from lockwork.dashboard.layers import Line, layered
from lockwork.protocol.queues.flow_graph import FlowNode

WIDE, HIGH, MARGIN = 176, 44, 8
_MOST = 120
"""Boxes of a picture; of a flow with more, its beginning, or what is around a job, is drawn."""
_LINES = 300
"""Lines of a picture; with more, those are left out that follow from others."""
STATES = ("failed", "running", "active", "ready", "scheduled", "blocked", "cancelled", "succeeded")
"""The states of a flow's jobs, those first that matter most; a box has the first one that it has a job of."""


@dataclass(frozen=True, slots=True)
class FlowBox:
    """Jobs of a flow that are alike, at a place."""

    task: str | None
    nodes: tuple[FlowNode, ...]
    marked: bool
    x: float
    y: float

    @property
    def state(self) -> str:
        """The state that matters most."""
        return self.counts[0][0]

    @property
    def counts(self) -> list[tuple[str, int]]:
        """Jobs by state, those first that matter most."""
        found = Counter(node.state for node in self.nodes)
        return [(state, found[state]) for state in STATES if state in found]  # type: ignore[index]

    @property
    def words(self) -> str:
        """What a reader who does not see the picture hears."""
        counts = ", ".join(f"{count:,} {state}" for state, count in self.counts)
        return f"{self.task or 'unknown task'}: {counts if len(self.nodes) > 1 else self.state}"


@dataclass(frozen=True, slots=True)
class FlowPicture:
    """Boxes and lines; `left_out` jobs are on none of the boxes."""

    boxes: list[FlowBox]
    lines: list[Line]
    width: float
    height: float
    left_out: int


def fold(nodes: Sequence[FlowNode], marked: str = "") -> list[list[FlowNode]]:
    """Put jobs together that have one task and wait for, and are waited for by, jobs that are together.

    The job with the id `marked` is alone. A job whose task is forgotten goes with those of its kind in all else.
    """
    there = {node.number for node in nodes}
    after = {node.number: [child for child in node.children if child in there] for node in nodes}
    before: defaultdict[int, list[int]] = defaultdict(list)
    for number, children in after.items():
        for child in children:
            before[child].append(number)

    def refined(kinds: dict[int, object]) -> dict[int, object]:
        """Tell apart what has other neighbors, until nothing more can be told apart."""
        many = 0
        while many < (many := len(set(kinds.values()))):
            signs = {
                number: (
                    kinds[number],
                    frozenset(kinds[each] for each in before[number]),
                    frozenset(kinds[each] for each in after[number]),
                )
                for number in kinds
            }
            short = {sign: at for at, sign in enumerate(dict.fromkeys(signs.values()))}
            kinds = {number: short[sign] for number, sign in signs.items()}
        return kinds

    shapes = refined({node.number: node.id == marked for node in nodes})
    known: defaultdict[object, set[str]] = defaultdict(set)
    for node in nodes:
        if node.task is not None:
            known[shapes[node.number]].add(node.task)
    alike = {shape: next(iter(tasks)) for shape, tasks in known.items() if len(tasks) == 1}
    kinds = refined({node.number: (node.id == marked, node.task or alike.get(shapes[node.number])) for node in nodes})
    groups: defaultdict[object, list[FlowNode]] = defaultdict(list)
    for node in nodes:
        groups[kinds[node.number]].append(node)
    return list(groups.values())


def picture(nodes: Sequence[FlowNode], marked: str = "") -> FlowPicture | None:
    """Draw the jobs of a flow, or some around the one with the id `marked`; None if there are none."""
    groups = fold(nodes, marked)
    if not groups:
        return None
    at = next((at for at, group in enumerate(groups) if group[0].id == marked), 0)
    first = max(0, min(at - _MOST // 2, len(groups) - _MOST))
    shown = groups[first : first + _MOST]
    names = {node.number: str(group[0].number) for group in shown for node in group}
    edges = [
        (names[node.number], names[child])
        for group in shown
        for node in group
        for child in node.children
        if child in names
    ]
    edges = list(dict.fromkeys(edges))
    if len(edges) > _LINES:
        edges = _reduced(edges)
    drawn = layered([str(group[0].number) for group in shown], edges, WIDE, HIGH)
    boxes = [
        FlowBox(
            next((node.task for node in group if node.task is not None), None),
            tuple(group),
            group[0].id == marked,
            *drawn.places[str(group[0].number)],
        )
        for group in shown
    ]
    left_out = len(nodes) - sum(len(box.nodes) for box in boxes)
    return FlowPicture(boxes, drawn.lines, drawn.width + 2 * MARGIN, drawn.height + 2 * MARGIN, left_out)


def _reduced(edges: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Leave out each edge between boxes that a longer way connects, too; boxes are numbered in the order of work."""
    after: defaultdict[str, list[str]] = defaultdict(list)
    for start, end in edges:
        after[start].append(end)
    beyond: dict[str, set[str]] = {}

    def reached(box: str) -> set[str]:
        if box not in beyond:
            beyond[box] = {further for end in after[box] for further in (end, *reached(end))}
        return beyond[box]

    for box in sorted(after, key=int, reverse=True):  # so that it never goes deep
        reached(box)
    return [
        (start, end)
        for start, end in edges
        if not any(end in beyond.get(other, ()) for other in after[start] if other != end)
    ]
