"""A queue as people see it in a terminal."""

from __future__ import annotations

from collections.abc import Sequence

import click

from lockwork.cli.printable import printable
from lockwork.protocol.queues.status import QueueStatus
from lockwork.queues.limits import QueueLimits


def show_queue(name: str, status: QueueStatus, limits: QueueLimits) -> None:
    """Print where its jobs are, and what holds for it."""
    click.echo(f"queue {printable(name)}: {'paused' if status.paused else 'open'}")
    places = [("ready", status.ready), ("scheduled", status.scheduled), ("running", status.running)]
    if status.blocked:  # only flows have such jobs
        places.append(("blocked", status.blocked))
    click.echo("  " + ", ".join(f"{count:,} {place}" for place, count in (*places, ("dead", status.dead))))
    found = (
        ("rate", limits.rate),
        ("concurrency", None if limits.concurrency is None else f"{limits.concurrency:,}"),
        ("size", None if limits.size is None else f"{limits.size:,}"),
    )
    given = [f"{what} {limit}" for what, limit in found if limit is not None]
    click.echo(f"  limits: {', '.join(given) or 'none'}")


def show_queues(seen: Sequence[tuple[str, QueueStatus, QueueLimits]]) -> None:
    """Print all of them."""
    for each in seen:
        show_queue(*each)
    if not seen:
        click.echo("no queue has had a job")
