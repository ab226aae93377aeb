"""`lockwork status`."""

from __future__ import annotations

from collections.abc import Sequence

import click
from rich.console import RenderableType
from rich.text import Text

from lockwork import words
from lockwork.app.lockwork import Lockwork
from lockwork.cli.doctor import listed
from lockwork.cli.help import Command
from lockwork.cli.options import connected, names_the_app
from lockwork.cli.report import Output, Report, reports
from lockwork.cli.table import Column, Listing
from lockwork.cli.text import count, duration, printable, state
from lockwork.cli.workers import listing
from lockwork.doctor.findings import CHECKED_PARTS, findings_of
from lockwork.inspection.overview import OverviewReader
from lockwork.inspection.queue_state import PartitionState
from lockwork.protocol.queue.ages import ReadyAge
from lockwork.telemetry.metrics import activity

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
        reader = OverviewReader()
        output.show(lambda: _report(lw, reader))


def _report(lw: Lockwork, reader: OverviewReader) -> Report:
    overview = reader.read(lw.runtime, CHECKED_PARTS)
    read_hour = activity(lw.config.prefix, None, None, "1h", overview.names)
    findings, total = findings_of(overview), lw.runtime.run(read_hour).series().total
    rows: list[Sequence[str | Text]] = [
        (
            printable(queue.name),
            state("paused" if queue.status.paused else "open"),
            count(queue.status.ready),
            count(queue.status.running, "running"),
            count(queue.status.scheduled),
            count(queue.status.dead, "dead"),
            _served(queue),
            _waited(queue.oldest),
        )
        for queue in overview.partitions
    ]
    p95 = {"wait": total.wait.quantile(0.95), "run": total.run.quantile(0.95)}
    failed = words.several(total.failed, "failed attempt")
    hour = f"last hour: {total.succeeded:,} succeeded, {failed}, {total.dead:,} dead"
    hour += "".join(f", {what} p95 {duration(seconds)}" for what, seconds in p95.items() if seconds is not None)
    body: list[RenderableType] = [
        *listed(findings),
        hour,
        "",
        Listing(_QUEUES, rows, title="queues", empty="no queue has had a job"),
        "",
        listing(overview.workers, title="workers"),
    ]
    summary = {"succeeded": total.succeeded, "failed": total.failed, "dead": total.dead, "p95": p95}
    listed_queues = [
        {
            "queue": queue.name,
            "workers": len(queue.workers),
            "oldest": queue.oldest.seconds if queue.oldest.known else None,
            "status": queue.status,
        }
        for queue in overview.partitions
    ]
    document = {"findings": findings, "last_hour": summary, "queues": listed_queues, "workers": overview.workers}
    return Report(document, body)


def _served(queue: PartitionState) -> Text:
    if not queue.workers and queue.status.ready + queue.status.scheduled:
        return state("dead", "0")
    return count(len(queue.workers))


def _waited(age: ReadyAge) -> str:
    """Format the wait of the oldest ready job; empty if no job is ready."""
    if age.known:
        return words.age(age.seconds) if age.seconds else ""
    return f"at least {words.age(age.seconds)}" if age.seconds else "unknown"
