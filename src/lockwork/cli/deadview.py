"""Dead jobs as people read them: one by one, in groups, and all of one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from lockwork.cli.printable import lasting, printable
from lockwork.protocol.queues.dead import DeadGroup, DeadJob, DeadPage

_SHOWN = 300
"""Characters of an error's text in a table."""


def show_jobs(pages: Mapping[str, DeadPage], console: Console | None = None) -> None:
    """Print the jobs, a table for each queue that has some."""
    out = console or Console(highlight=False)
    shown = False
    for queue, page in pages.items():
        if page.problem:
            out.print(Text(f"queue {queue}: a key of it could not be read: {printable(page.problem)}"), style="red")
        if not page.jobs:
            continue
        shown = True
        table = _table(f"queue {queue}", "id", "task", "error", "attempts", "died ago")
        for job in page.jobs:
            cells = (printable(job.id), _task(job), _error(job), str(job.attempts), lasting(job.dead_for))
            table.add_row(*map(Text, cells))
        out.print(table)
        if page.next:
            out.print(Text(f'more: --after "{printable(page.next)}"'), style="dim")
    if not shown:
        out.print("no dead jobs")


def show_groups(found: Mapping[str, Sequence[DeadGroup]], console: Console | None = None) -> None:
    """Print the groups, a table for each queue that has some."""
    out = console or Console(highlight=False)
    for queue, groups in found.items():
        if not groups:
            continue
        table = _table(f"queue {queue}", "jobs", "task", "error", "oldest", "newest")
        for group in groups:
            last = group.example
            times = (lasting(group.oldest), lasting(group.newest))
            table.add_row(*map(Text, (str(group.count), _task(last), _error(last), *times)))
        out.print(table)
    if not any(found.values()):
        out.print("no dead jobs")


def show_job(job: DeadJob, console: Console | None = None) -> None:
    """Print all of one job, its arguments and traceback included."""
    out = console or Console(highlight=False)
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    rows = {
        "id": job.id,
        "task": _task(job),
        "arguments": "" if job.call.args is None else json.dumps(job.call.args, ensure_ascii=False),
        "keywords": json.dumps(job.call.kwargs, ensure_ascii=False) if job.call.kwargs else "",
        "priority": job.call.priority,
        "attempts": _attempts(job),
        "died": f"{lasting(job.dead_for)} ago",
        "enqueued": "" if job.age is None else f"{lasting(job.age)} ago",
        "error": f"{job.error.type}: {job.error.text}" if job.error.type else job.error.text,
    }
    for title, text in rows.items():
        if text:
            table.add_row(title, Text(printable(text)))
    out.print(table)
    for line in (job.error.traceback or "").splitlines():
        out.print(Text(printable(line)))


def _attempts(job: DeadJob) -> str:
    if not job.crashes:
        return f"{job.attempts} of {job.call.deliveries}"
    return f"{job.attempts}; its process died in {job.crashes} of them"


def _table(title: str, *columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", title=Text(title), title_justify="left")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _task(job: DeadJob) -> str:
    return printable(job.call.task or f"({job.call.problem})")


def _error(job: DeadJob) -> str:
    text = f"{job.error.type}: {job.error.text}" if job.error.type else job.error.text
    return printable(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...")
