"""`lockwork status`."""

from __future__ import annotations

from collections.abc import Sequence

import click
from rich.console import RenderableType
from rich.text import Text

from lockwork.app.lockwork import Lockwork
from lockwork.cli.doctor import listed
from lockwork.cli.help import Command
from lockwork.cli.options import connected, names_the_app
from lockwork.cli.report import Output, Report, reports
from lockwork.cli.table import Column, Listing
from lockwork.cli.text import brief, count, lasting, printable, state
from lockwork.cli.workers import listing
from lockwork.doctor import findings
from lockwork.validation import several

_QUEUES = (
    Column("queue", whole=True),
    Column("state", whole=True),
    Column("ready", right=True),
    Column("running", right=True),
    Column("scheduled", right=True),
    Column("dead", right=True),
    Column("workers", right=True),
    Column("oldest", right=True),
)


@click.command(
    cls=Command,
    examples={
        "lockwork status": "Queues, workers, the last hour and problems.",
        "lockwork status --watch 5": "Every 5 s.",
    },
)
@reports
@names_the_app
def status(*, output: Output, url: str | None, prefix: str) -> None:
    """Show problems, the last hour, queues and workers on one screen."""
    with connected(url, prefix) as lw:
        output.show(lambda: _report(lw))


def _report(lw: Lockwork) -> Report:
    found, total, workers, ages = findings(lw), lw.metrics(span="1h").total, lw.workers(), lw.queue_ages()
    queues = [(name, queue.status(), len(queue.workers())) for name in lw.queues() for queue in [lw.queue(name)]]
    rows: list[Sequence[str | Text]] = [
        (
            printable(name),
            state("paused" if counts.paused else "open"),
            count(counts.ready),
            count(counts.running, "running"),
            count(counts.scheduled),
            count(counts.dead, "dead"),
            state("dead", "0") if not served and counts.ready + counts.scheduled else count(served),
            lasting(age) if (age := ages.get(name, 0.0)) else "",
        )
        for name, counts, served in queues
    ]
    p95 = {"wait": total.wait.quantile(0.95), "run": total.run.quantile(0.95)}
    failed = several(total.failed, "failed attempt", "failed attempts")
    hour = f"last hour: {total.succeeded:,} succeeded, {failed}, {total.dead:,} dead"
    hour += "".join(f", {what} p95 {brief(seconds)}" for what, seconds in p95.items() if seconds is not None)
    body: list[RenderableType] = [
        *listed(found),
        hour,
        "",
        Listing(_QUEUES, rows, title="queues", empty="no queue has had a job"),
        "",
        listing(workers, title="workers"),
    ]
    summary = {"succeeded": total.succeeded, "failed": total.failed, "dead": total.dead, "p95": p95}
    listed_queues = [
        {"queue": name, "workers": served, "oldest": ages.get(name), "status": counts}
        for name, counts, served in queues
    ]
    return Report({"findings": found, "last_hour": summary, "queues": listed_queues, "workers": workers}, body)
