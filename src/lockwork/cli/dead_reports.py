"""The tables and documents of `lockwork dead`."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from lockwork import words
from lockwork.cli.report import Report
from lockwork.cli.table import Column, Listing, facts
from lockwork.cli.text import HIDDEN, STYLES, printable, unfolded
from lockwork.jobs.snapshot import process_deaths
from lockwork.protocol.dead.dead import DeadGroup, DeadJob, DeadPage
from lockwork.protocol.queue.envelope import ENCRYPTED

_SHOWN = 300
"""Characters of an error's text in a table."""
_JOBS = (
    Column("id", whole=True),
    Column("task"),
    Column("error", below=40),
    Column("attempts", right=True),
    Column("died ago", right=True),
)
_GROUPS = (
    Column("jobs", right=True),
    Column("task"),
    Column("newest error", below=40),
    Column("oldest", right=True),
    Column("newest", right=True),
)


def jobs_report(pages: Mapping[str, DeadPage], hidden: Collection[str] = (), empty: str = "no job is dead") -> Report:
    """Return the jobs, a table for each queue that has some, and where the next page begins; `empty`: if none has."""
    document = {
        queue: {"jobs": [_job(job, hidden) for job in page.jobs], "next": page.next, "problem": page.problem}
        for queue, page in pages.items()
    }
    body: list[RenderableType] = []
    for queue, page in pages.items():
        if page.problem:
            text = f"queue {queue}: one of its keys could not be read: {printable(page.problem)}"
            body.append(Text(text, style=STYLES["serious"]))
        if page.jobs:
            rows = [
                (printable(job.id), _task(job), _error(job), str(job.attempts), words.age(job.dead_for))
                for job in page.jobs
            ]
            body.append(Listing(_JOBS, rows, title=f"queue {queue}"))
        if page.jobs and page.next:
            body.append(Text(f'more: --after "{printable(page.next)}"', style="dim"))
    if not any(page.jobs for page in pages.values()):
        body.append(empty)
    return Report({"queues": document}, body)


def groups_report(groups_by_queue: Mapping[str, Sequence[DeadGroup]], hidden: Collection[str], empty: str) -> Report:
    """Return the groups, a table for each queue that has some."""
    document = {
        queue: {"groups": [_group(group, hidden) for group in groups]} for queue, groups in groups_by_queue.items()
    }
    body: list[RenderableType] = []
    for queue, groups in groups_by_queue.items():
        rows = [
            (
                f"{group.count:,}",
                _task(group.example),
                _error(group.example),
                words.age(group.oldest),
                words.age(group.newest),
            )
            for group in groups
        ]
        if rows:
            body.append(Listing(_GROUPS, rows, title=f"queue {queue}"))
    return Report({"queues": document}, body or [empty])


def job_report(job: DeadJob, hidden: Collection[str] = ()) -> Report:
    """Return one job with its arguments and traceback."""
    rows = {
        "id": job.id,
        "task": _task(job),
        "arguments": HIDDEN
        if _hides(job, hidden)
        else ENCRYPTED
        if job.call.encrypted
        else ""
        if job.call.args is None
        else json.dumps(job.call.args, ensure_ascii=False),
        "keywords": json.dumps(job.call.kwargs, ensure_ascii=False)
        if job.call.kwargs and not _hides(job, hidden)
        else "",
        "priority": str(job.call.priority),
        "attempts": _attempts(job),
        "died": f"{words.age(job.dead_for)} ago",
        "enqueued": "" if job.age is None else f"{words.age(job.age)} ago",
        "error": f"{job.error.type}: {job.error.text}" if job.error.type else job.error.text,
    }
    lines = [unfolded(line) for line in (job.error.traceback or "").splitlines()]
    return Report(_job(job, hidden), [facts((title, printable(text)) for title, text in rows.items()), *lines])


def _hides(job: DeadJob, hidden: Collection[str]) -> bool:
    return job.call.hidden or job.call.task in hidden


def _attempts(job: DeadJob) -> str:
    deaths = process_deaths(job.crashes, job.shared_crashes)
    return f"{job.attempts}; {deaths}" if deaths else f"{job.attempts} of {job.call.deliveries}"


def _task(job: DeadJob) -> str:
    return printable(job.call.task or f"({job.call.problem})")


def _error(job: DeadJob) -> str:
    text = f"{job.error.type}: {job.error.text}" if job.error.type else job.error.text
    return printable(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...")


def _job(job: DeadJob, hidden: Collection[str]) -> dict[str, Any]:
    return {
        "id": job.id,
        "task": job.call.task,
        "args": None if _hides(job, hidden) else job.call.args,
        "kwargs": None if _hides(job, hidden) else job.call.kwargs,
        "encrypted": job.call.encrypted,
        "priority": job.call.priority,
        "attempts": job.attempts,
        "crashes": job.crashes,
        "shared_crashes": job.shared_crashes,
        "deliveries": job.call.deliveries,
        "size": job.call.size,
        "cut": job.call.cut,
        "problem": job.call.problem,
        "error": {"type": job.error.type, "text": job.error.text, "traceback": job.error.traceback},
        "dead_for": job.dead_for,
        "age": job.age,
    }


def _group(group: DeadGroup, hidden: Collection[str]) -> dict[str, Any]:
    return {
        "error": group.error,
        "task": group.task,
        "count": group.count,
        "oldest": group.oldest,
        "newest": group.newest,
        "example": _job(group.example, hidden),
    }
