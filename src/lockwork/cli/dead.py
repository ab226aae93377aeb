"""`lockwork dead`."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import click
from rich.console import RenderableType
from rich.text import Text

from lockwork.app.lockwork import Lockwork
from lockwork.cli.announced import Announced
from lockwork.cli.completion import nothing, queue_names, task_names, words_of
from lockwork.cli.help import Command
from lockwork.cli.names import action_hint
from lockwork.cli.options import duration, names_the_app, opened, partitions_option
from lockwork.cli.progress import progress
from lockwork.cli.report import Output, Report, reports
from lockwork.cli.table import Column, Listing, facts
from lockwork.cli.text import HIDDEN, STYLES, lasting, printable, unfolded
from lockwork.errors import ConfigError
from lockwork.protocol.queues.dead import DeadGroup, DeadJob, DeadPage
from lockwork.queues.dead import DeadSet, Matching, checked_filter

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
    Column("error", below=40),
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
                (printable(job.id), _task(job), _error(job), str(job.attempts), lasting(job.dead_for))
                for job in page.jobs
            ]
            body.append(Listing(_JOBS, rows, title=f"queue {queue}"))
        if page.jobs and page.next:
            body.append(Text(f'more: --after "{printable(page.next)}"', style="dim"))
    if not any(page.jobs for page in pages.values()):
        body.append(empty)
    return Report({"queues": document}, body)


def groups_report(found: Mapping[str, Sequence[DeadGroup]], hidden: Collection[str], empty: str) -> Report:
    """Return the groups, a table for each queue that has some."""
    document = {queue: {"groups": [_group(group, hidden) for group in groups]} for queue, groups in found.items()}
    body: list[RenderableType] = []
    for queue, groups in found.items():
        rows = [
            (
                f"{group.count:,}",
                _task(group.example),
                _error(group.example),
                lasting(group.oldest),
                lasting(group.newest),
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
        if job.call.task in hidden
        else ""
        if job.call.args is None
        else json.dumps(job.call.args, ensure_ascii=False),
        "keywords": json.dumps(job.call.kwargs, ensure_ascii=False)
        if job.call.kwargs and job.call.task not in hidden
        else "",
        "priority": job.call.priority,
        "attempts": _attempts(job),
        "died": f"{lasting(job.dead_for)} ago",
        "enqueued": "" if job.age is None else f"{lasting(job.age)} ago",
        "error": f"{job.error.type}: {job.error.text}" if job.error.type else job.error.text,
    }
    lines = [unfolded(line) for line in (job.error.traceback or "").splitlines()]
    return Report(_job(job, hidden), [facts((title, printable(text)) for title, text in rows.items()), *lines])


def _attempts(job: DeadJob) -> str:
    if not job.crashes:
        return f"{job.attempts} of {job.call.deliveries}"
    return f"{job.attempts}; its process died in {job.crashes} of them"


def _task(job: DeadJob) -> str:
    return printable(job.call.task or f"({job.call.problem})")


def _error(job: DeadJob) -> str:
    text = f"{job.error.type}: {job.error.text}" if job.error.type else job.error.text
    return printable(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...")


def _job(job: DeadJob, hidden: Collection[str]) -> dict[str, Any]:
    return {
        "id": job.id,
        "task": job.call.task,
        "args": None if job.call.task in hidden else job.call.args,
        "kwargs": None if job.call.task in hidden else job.call.kwargs,
        "priority": job.call.priority,
        "attempts": job.attempts,
        "crashes": job.crashes,
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


_ACTIONS = ("list", "groups", "show", "retry", "delete")
_LOOKS = ("list", "groups", "show")
_ONLY_WITH = {
    "--json": _LOOKS,
    "--watch": ("list", "groups"),
    "--limit": ("list", "retry", "delete"),
    "--after": ("list",),
    "--all": ("retry", "delete"),
    "--one-more": ("retry",),
    "--yes": ("retry", "delete"),
}
"""The actions that use an option; with any other action it is an error."""


@click.command(
    cls=Command,
    examples={
        "lockwork dead": "The dead jobs of all queues, the newest first.",
        "lockwork dead groups": "Grouped by error and task.",
        "lockwork dead -q mail show 0NnhHJ0kVzCPa1Gg": "One job with its traceback.",
        "lockwork dead -q mail retry --error SMTPError --newer-than 2h": "Run some again, after a question.",
        "lockwork dead -q mail delete --all --yes": "Delete all, without asking.",
    },
)
@click.option(
    "--queue",
    "-q",
    shell_complete=queue_names,
    help="The queue. [default: all queues; retry and delete need one]",
)
@partitions_option
@reports
@names_the_app
@click.option("--task", shell_complete=task_names, help="Only jobs of this task.")
@click.option("--error", "text", help="Only jobs whose error has this text in its type or message.")
@click.option("--older-than", help="Only jobs that died at least this long ago, such as 2d.")
@click.option("--newer-than", help="Only jobs that died at most this long ago, such as 30m.")
@click.option("--limit", type=click.IntRange(1), help="Maximum number of jobs. [default: 100 to list, else all]")
@click.option("--after", default="", help="Where to continue, as printed by an earlier list.")
@click.option("--all", "everything", is_flag=True, help="Retry or delete all jobs, if no filter is given.")
@click.option("--one-more", is_flag=True, help="Retry each job with one more attempt, instead of all its attempts.")
@click.option("--yes", is_flag=True, help="Retry or delete without asking.")
@click.argument(
    "words",
    nargs=-1,
    metavar="[list | groups | show ID | retry [ID]... | delete [ID]...]",
    shell_complete=words_of(_ACTIONS, nothing),
)
def dead(
    *,
    queue: str | None,
    partitions: int | None,
    output: Output,
    url: str | None,
    prefix: str,
    limit: int | None,
    after: str,
    everything: bool,
    one_more: bool,
    yes: bool,
    words: tuple[str, ...],
    **given: str | None,
) -> None:
    """Show the jobs that failed for good, one by one or grouped by error; retry or delete them.

    `retry` and `delete` take ids, or a filter (--task, --error, --older-than, --newer-than), or --all.
    """
    action = words[0] if words else "list"
    ids = words[1:]
    given_flags = {
        "--json": output.as_json,
        "--watch": output.watch,
        "--limit": limit,
        "--after": after,
        "--all": everything,
    }
    _check(action, ids, {**given_flags, "--one-more": one_more, "--yes": yes})
    # the options are named as the keys of Matching, which mypy cannot see
    matching: Matching = {name: _read(name, text) for name, text in given.items() if text is not None}  # type: ignore[assignment]
    if action not in ("list", "groups"):
        _check_words(action, queue, ids, chosen=bool(matching or everything), limited=limit is not None)
    checked_filter(matching)  # there may be no queue to search in
    with opened(url, prefix, queue, partitions, looks=action in _LOOKS) as lw:
        if action in ("list", "groups"):
            names = lw.queues() if queue is None else [queue]
            sets = {name: lw.queue(name).dead for name in names}
            _look(sets, action, matching, limit or 100, after, output, Announced.read(lw).hidden)
            return
        assert queue is not None
        chosen = lw.queue(queue).dead
        if action == "show":
            _show(chosen, queue, ids, output, Announced.read(lw).hidden)
        elif ids:
            _each(lw, queue, action, ids, anew=not one_more)
        else:
            _all(chosen, queue, action, matching, limit, anew=not one_more, yes=yes)


def _check(action: str, ids: tuple[str, ...], asked: dict[str, object]) -> None:
    if action not in _ACTIONS:
        hint = action_hint([action], _ACTIONS)
        raise click.UsageError(f"{action!r} is none of {', '.join(_ACTIONS)}{hint or ': a queue is named by --queue'}")
    if ids and action in ("list", "groups"):
        raise click.UsageError(f"{action} takes a filter, not ids")
    for option, actions in _ONLY_WITH.items():
        if asked[option] and action not in actions:
            raise click.UsageError(f"{option} is an option of {' or '.join(actions)}, not of {action}")


def _check_words(action: str, queue: str | None, ids: tuple[str, ...], *, chosen: bool, limited: bool) -> None:
    if queue is None:
        raise click.UsageError(f"{action} needs a --queue")
    if action == "show":
        if len(ids) != 1 or chosen:
            raise click.UsageError("show takes one id, not a filter")
    elif ids and (chosen or limited):
        raise click.UsageError("pass ids or a filter, not both")
    elif not ids and not chosen:
        raise click.UsageError(f"{action} needs ids, a filter, or --all")


def _read(name: str, text: str) -> float | str:
    return duration(text, f"--{name.replace('_', '-')}") if name in ("older_than", "newer_than") else text


def _look(
    sets: dict[str, DeadSet],
    action: str,
    matching: Matching,
    limit: int,
    after: str,
    output: Output,
    hidden: Collection[str],
) -> None:
    if after and len(sets) != 1:
        raise click.UsageError("--after needs the --queue of the earlier list")
    empty = "no dead job matches" if matching else "no job is dead"
    if action == "groups":
        output.show(
            lambda: groups_report({name: found.groups(**matching) for name, found in sets.items()}, hidden, empty)
        )
        return
    output.show(
        lambda: jobs_report(
            {name: found.search(limit=limit, after=after, **matching) for name, found in sets.items()}, hidden, empty
        )
    )


def _show(chosen: DeadSet, queue: str, ids: tuple[str, ...], output: Output, hidden: Collection[str]) -> None:
    (id,) = ids
    job = chosen.get(id)
    if job is None:
        raise ConfigError(f"no job {id!r} is dead in queue {queue!r}")
    output.show(lambda: job_report(job, hidden))


def _each(lw: Lockwork, queue: str, action: str, ids: tuple[str, ...], *, anew: bool) -> None:
    dead = lw.queue(queue).dead
    missing = [id for id in ids if not (dead.retry(id, anew=anew) if action == "retry" else dead.delete(id))]
    if len(missing) < len(ids):
        click.echo(f"{len(ids) - len(missing)} {_done(action)}")
    if missing:
        raise click.ClickException(f"not dead in queue {queue!r}: {', '.join(missing)}")


def _all(
    chosen: DeadSet, queue: str, action: str, matching: Matching, limit: int | None, *, anew: bool, yes: bool
) -> None:
    before = chosen.count()
    if not yes:
        with progress("counting", before, lambda: 0):
            count = chosen.count(**matching)
        meant = count if limit is None else min(count, limit)
        if not meant:
            raise ConfigError(f"nothing to {action}: no dead job matches")
        jobs = "dead job" if meant == 1 else "dead jobs"
        click.confirm(f"{action} {meant:,} {jobs} of queue {queue!r}?", err=True, abort=True)
    total = before if limit is None else min(before, limit)
    with progress(_doing(action), total, lambda: before - chosen.count(), changes=True):
        if action == "retry":
            done = chosen.retry_all(anew=anew, limit=limit, **matching)
        else:
            done = chosen.delete_all(limit=limit, **matching)
    click.echo(f"{done:,} {_done(action)}")


def _doing(action: str) -> str:
    return {"retry": "retrying", "delete": "deleting"}[action]


def _done(action: str) -> str:
    return {"retry": "will run again", "delete": "deleted"}[action]
