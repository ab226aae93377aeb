"""`lockwork flows`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import click
from rich.console import RenderableType
from rich.text import Text
from rich.tree import Tree

from lockwork.app.lockwork import Lockwork
from lockwork.cli.action_group import ActionGroup
from lockwork.cli.names import unknown
from lockwork.cli.options import Scope, queue_option, scoped
from lockwork.cli.report import Output, Report, prints_json, reports
from lockwork.cli.table import Column, Listing, facts
from lockwork.cli.text import ago, count, printable, state
from lockwork.errors import ConfigError
from lockwork.flows.runs import FlowPage, FlowRun, FlowStatus, FlowSummary
from lockwork.jobs.waits import on_embedded
from lockwork.protocol.flows.flow_graph import FlowNode
from lockwork.words import several

_COLUMNS = (
    Column("flow", whole=True),
    Column("queue", wide=72),
    Column("state", whole=True),
    Column("jobs", right=True),
    Column("ended", right=True),
    Column("failed", right=True),
    Column("cancelled", right=True, least=100),
    Column("enqueued", right=True),
)
SHOWN = 200
"""Jobs of a flow that a tree shows."""
_NAMED = 50
"""Jobs whose task is read from history."""


flows: ActionGroup = ActionGroup(
    "flows",
    default="show",
    help="""Show flows, or a flow and its jobs as a tree; cancel a flow.

    In the tree, a job is below the last job that it waits for, followed by its queue if that is not the flow's, by the
    numbers of the others, and by those whose failure it waits for.
    """,
)
_scope = scoped(queue_option("The queue of the flow. [default: all of them]"))


@flows.command(
    "show",
    examples={
        "lockwork flows": "The newest flows of all queues.",
        "lockwork flows -q orders --limit 10": "The newest flows of one queue.",
        "lockwork flows 0NnhHJ0kVzCPa1Gg": "One flow with its jobs and their dependencies.",
    },
)
@click.argument("id", required=False)
@click.option("--limit", default=50, show_default=True, type=click.IntRange(1), help="Maximum number of flows.")
@_scope
@reports
def _show(*, id: str | None, limit: int, scope: Scope, output: Output) -> None:
    """Show the newest flows, or one flow."""
    with scope.open(read_only=True) as lw:
        if id is None:
            output.show(lambda: _list_report(lw.flows(scope.queue, limit=limit)))
            return
        run = _found(lw, id, scope.queue)
        output.show(lambda: _flow_report(lw, run))


@flows.command(
    "cancel", examples={"lockwork flows cancel 0NnhHJ0kVzCPa1Gg": "Cancel all jobs of a flow that have not ended."}
)
@click.argument("id")
@_scope
@prints_json
def _cancel(*, id: str, scope: Scope, output: Output) -> None:
    """Cancel all jobs of a flow that have not ended."""
    with scope.open(read_only=True) as lw:
        run = _found(lw, id, scope.queue)
        if not run.cancel():
            raise ConfigError(f"flow {id} has ended: it cannot be cancelled")
        output.show(lambda: _flow_report(lw, run))


def _found(lw: Lockwork, id: str, queue: str | None) -> FlowRun:
    names = lw.queues() if queue is None else [each.name for each in lw.queue(queue).partitions]
    for name in names:
        run = lw.flow(id=id, queue=name)
        if run.inspect().state != "unknown":
            return run
    known = [each.id for each in lw.flows(queue).flows]
    raise unknown("flow", id, known, ids=True, on_embedded=on_embedded(lw.runtime))


def _list_report(page: FlowPage) -> Report:
    rows = [_row(each) for each in page.flows]
    body: list[RenderableType] = [Listing(_COLUMNS, rows, empty="no flow is on this server")]
    if page.total is None:
        body.append(Text(f"{page.searched:,} entries were searched, and there are more: pass a --queue", style="dim"))
    document = {"flows": [_document(each) for each in page.flows], "searched": page.searched, "total": page.total}
    return Report(document, body)


def _row(each: FlowSummary) -> list[str | Text]:
    status = each.status
    return [
        printable(each.id),
        printable(each.queue),
        state(status.state),
        f"{status.jobs:,}",
        count(status.ended),
        count(status.failed, "failed") if status.failed else "",
        f"{status.cancelled:,}" if status.cancelled else "",
        f"{ago(each.enqueued)} ago",
    ]


def _document(each: FlowSummary) -> dict[str, Any]:
    return {"id": each.id, "queue": each.queue, "enqueued": each.enqueued, **_counts(each.status)}


def _counts(status: FlowStatus) -> dict[str, Any]:
    return {name: getattr(status, name) for name in ("state", *_COUNTS)}


_COUNTS = ("jobs", "succeeded", "failed", "cancelled", "skipped", "compensated", "uncompensated")


def _flow_report(lw: Lockwork, run: FlowRun) -> Report:
    status = run.inspect()
    nodes = graph(lw, run.id, run.queue)
    counts = [f"{getattr(status, name):,} {name}" for name in _COUNTS[1:] if getattr(status, name)]
    rows: list[tuple[str, str | Text]] = [
        ("flow", run.id),
        ("queue", printable(run.queue)),
        ("state", state(status.state)),
        ("jobs", ", ".join([f"{status.jobs:,}", *counts])),
    ]
    body: list[RenderableType] = [facts(rows), tree(nodes)]
    if status.jobs > len(nodes):
        body.append(Text(f"and {several(status.jobs - len(nodes), 'more job')}", style="dim"))
    return Report({"id": run.id, "queue": run.queue, **_counts(status), "graph": nodes}, body)


def graph(lw: Lockwork, id: str, queue: str) -> list[FlowNode]:
    """Read the first jobs of a flow; the tasks of ended jobs come from history."""
    run = lw.flow(id=id, queue=queue)
    nodes = run.graph(SHOWN)
    unnamed = [at for at, node in enumerate(nodes) if node.task is None][:_NAMED]
    for at in unnamed:
        nodes[at] = replace(nodes[at], task=lw.job(nodes[at].id, nodes[at].queue or run.queue).inspect().task)
    return nodes


def tree(nodes: Sequence[FlowNode], marked: str = "") -> RenderableType:
    """Return the jobs of a flow as a tree, each under the last job that it waits for; mark the job `marked`."""
    drawing = _Drawing(nodes, marked)
    top = Tree("", hide_root=True, guide_style="color(244)")
    for node in nodes:
        if not drawing.parents[node.number]:
            drawing.add(top, node)
    return top


class _Drawing:
    """The tree while it is drawn."""

    def __init__(self, nodes: Sequence[FlowNode], marked: str) -> None:
        self.nodes = nodes
        self.marked = marked
        self._by_number = {node.number: node for node in nodes}
        self.parents: defaultdict[int, list[int]] = defaultdict(list)
        self._causes: defaultdict[int, list[int]] = defaultdict(list)
        for node in nodes:
            for child in node.children:
                self.parents[child].append(node.number)
            for child in node.after_failure:
                self._causes[child].append(node.number)

    def add(self, top: Tree, first: FlowNode) -> None:
        """Add a job and those under it, without recursion: a chain may be long."""
        pending = [(top, first)]
        while pending:
            place, node = pending.pop()
            branch = place.add(self._label(node))
            under = [
                self._by_number[child]
                for child in node.children
                if child in self._by_number and self.parents[child][-1] == node.number
            ]
            pending += [(branch, each) for each in under]

    def _label(self, node: FlowNode) -> Text:
        text = Text(f"{node.number} ")
        text.append(printable(node.task or "?"), style="bold")
        text.append("  ")
        text.append_text(state(node.state))
        if node.queue is not None:
            text.append(f"  in {printable(node.queue)}", style="color(244)")
        causes = self._causes[node.number]
        if others := [number for number in self.parents[node.number][:-1] if number not in causes]:
            text.append(f"  also after {_numbers(others)}", style="color(244)")
        if causes:
            text.append(f"  after a failure of {_numbers(causes)}", style="color(244)")
        if node.id == self.marked:
            text.append("  <- this job")
        return text


def _numbers(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers[:5])) + (", ..." if len(numbers) > 5 else "")
