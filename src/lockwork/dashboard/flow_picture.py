"""The picture of a flow: similar jobs share one box with counts, and boxes follow the order of work."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from msgspec import Struct

from lockwork.dashboard.layers import Line, layered
from lockwork.protocol.flows.flow_graph import FlowNode

WIDE, HIGH, MARGIN = 176, 44, 8
_MOST = 120
"""Maximum boxes of a picture; for a larger flow, the picture shows its beginning, or the surroundings of a job."""
_LINES = 300
"""Maximum lines of a picture; beyond it, lines that follow from others are left out."""
STATES = ("failed", "running", "active", "ready", "scheduled", "blocked", "cancelled", "skipped", "succeeded")
"""The states of a flow's jobs by importance; a box shows the first state that one of its jobs has."""


class FlowBox(Struct, frozen=True):
    """Similar jobs of a flow, at a position."""

    task: str | None
    nodes: tuple[FlowNode, ...]
    marked: bool
    x: float
    y: float

    @property
    def state(self) -> str:
        """Most important state."""
        return self.counts[0][0]

    @property
    def counts(self) -> list[tuple[str, int]]:
        """Jobs by state, the most important first."""
        totals = Counter(node.state for node in self.nodes)
        return [(state, totals[state]) for state in STATES if state in totals]  # type: ignore[index]

    @property
    def queue(self) -> str | None:
        """The queue of the jobs, if that is not the flow's."""
        return self.nodes[0].queue

    @property
    def words(self) -> str:
        """Text for screen readers."""
        counts = ", ".join(f"{count:,} {state}" for state, count in self.counts)
        place = f" in queue {self.queue}" if self.queue else ""
        return f"{self.task or 'unknown task'}{place}: {counts if len(self.nodes) > 1 else self.state}"


class FlowPicture(Struct, frozen=True):
    """Boxes and lines; `left_out` jobs are in none of the boxes."""

    boxes: list[FlowBox]
    lines: list[Line]
    after_failure: frozenset[tuple[str, str]]
    """The lines, by start and end, whose end runs only if the start fails."""
    width: float
    height: float
    left_out: int


def fold(nodes: Sequence[FlowNode], marked: str = "") -> list[list[FlowNode]]:
    """Group jobs with the same task and queue whose predecessors and successors are in the same groups.

    The job with the id `marked` is alone. A job whose task is forgotten joins jobs that are otherwise similar.
    """
    there = {node.number for node in nodes}
    after = {node.number: [child for child in node.children if child in there] for node in nodes}
    failing = {(node.number, child) for node in nodes for child in node.after_failure}
    before: defaultdict[int, list[int]] = defaultdict(list)
    for number, children in after.items():
        for child in children:
            before[child].append(number)

    def refined(kinds: dict[int, object]) -> dict[int, object]:
        """Split kinds by their neighbors, until no kind can be split further."""
        many = 0
        while many < (many := len(set(kinds.values()))):
            signs = {
                number: (
                    kinds[number],
                    frozenset((kinds[each], (each, number) in failing) for each in before[number]),
                    frozenset((kinds[each], (number, each) in failing) for each in after[number]),
                )
                for number in kinds
            }
            short = {sign: at for at, sign in enumerate(dict.fromkeys(signs.values()))}
            kinds = {number: short[sign] for number, sign in signs.items()}
        return kinds

    shapes = refined({node.number: (node.id == marked, node.queue) for node in nodes})
    task_names: defaultdict[object, set[str]] = defaultdict(set)
    for node in nodes:
        if node.task is not None:
            task_names[shapes[node.number]].add(node.task)
    alike = {shape: next(iter(tasks)) for shape, tasks in task_names.items() if len(tasks) == 1}
    kinds = refined(
        {node.number: (node.id == marked, node.queue, node.task or alike.get(shapes[node.number])) for node in nodes}
    )
    groups: defaultdict[object, list[FlowNode]] = defaultdict(list)
    for node in nodes:
        groups[kinds[node.number]].append(node)
    return list(groups.values())


def picture(nodes: Sequence[FlowNode], marked: str = "") -> FlowPicture | None:
    """Draw the jobs of a flow, or the surroundings of the job `marked`; return None without jobs."""
    groups = fold(nodes, marked)
    if not groups:
        return None
    at = next((at for at, group in enumerate(groups) if group[0].id == marked), 0)
    first = max(0, min(at - _MOST // 2, len(groups) - _MOST))
    visible_groups = groups[first : first + _MOST]
    names = {node.number: str(group[0].number) for group in visible_groups for node in group}
    edges = [
        (names[node.number], names[child])
        for group in visible_groups
        for node in group
        for child in node.children
        if child in names
    ]
    edges = list(dict.fromkeys(edges))
    after_failure = frozenset(
        (names[node.number], names[child])
        for group in visible_groups
        for node in group
        for child in node.after_failure
        if child in names
    )
    if len(edges) > _LINES:
        edges = _reduced(edges)
    drawing = layered([str(group[0].number) for group in visible_groups], edges, WIDE, HIGH)
    boxes = [
        FlowBox(
            next((node.task for node in group if node.task is not None), None),
            tuple(group),
            group[0].id == marked,
            *drawing.places[str(group[0].number)],
        )
        for group in visible_groups
    ]
    left_out = len(nodes) - sum(len(box.nodes) for box in boxes)
    return FlowPicture(
        boxes, drawing.lines, after_failure, drawing.width + 2 * MARGIN, drawing.height + 2 * MARGIN, left_out
    )


def _reduced(edges: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Remove each edge whose boxes a longer path connects, too; boxes are numbered in the order of work."""
    after: defaultdict[str, list[str]] = defaultdict(list)
    for start, end in edges:
        after[start].append(end)
    beyond: dict[str, set[str]] = {}

    def reached(box: str) -> set[str]:
        if box not in beyond:
            beyond[box] = {further for end in after[box] for further in (end, *reached(end))}
        return beyond[box]

    for box in sorted(after, key=int, reverse=True):  # so that the recursion stays shallow
        reached(box)
    return [
        (start, end)
        for start, end in edges
        if not any(end in beyond.get(other, ()) for other in after[start] if other != end)
    ]
