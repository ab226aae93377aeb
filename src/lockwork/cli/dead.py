"""`lockwork dead`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from lockwork.app.lockwork import Lockwork
from lockwork.cli.options import duration, names_the_app, opened, partitions_option
from lockwork.cli.terminal import lasting, printable
from lockwork.errors import ConfigError
from lockwork.protocol.queues.dead import DeadGroup, DeadJob, DeadPage
from lockwork.queues.dead import DeadSet, Matching, checked_filter

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
    """Print one job with its arguments and traceback."""
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


def jobs_json(pages: Mapping[str, DeadPage]) -> str:
    """Return the jobs of each queue, and where the next page begins, as JSON."""
    return _document(
        {
            queue: {"jobs": [_job(job) for job in page.jobs], "next": page.next, "problem": page.problem}
            for queue, page in pages.items()
        }
    )


def groups_json(groups: Mapping[str, Sequence[DeadGroup]]) -> str:
    """Return the groups of each queue as JSON."""
    return _document({queue: {"groups": [_group(group) for group in found]} for queue, found in groups.items()})


def job_json(job: DeadJob) -> str:
    """Return one job as JSON."""
    return json.dumps(_job(job), indent=2)


def _document(queues: dict[str, Any]) -> str:
    return json.dumps({"queues": queues}, indent=2)


def _job(job: DeadJob) -> dict[str, Any]:
    return {
        "id": job.id,
        "task": job.call.task,
        "args": job.call.args,
        "kwargs": job.call.kwargs,
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


def _group(group: DeadGroup) -> dict[str, Any]:
    return {
        "error": group.error,
        "task": group.task,
        "count": group.count,
        "oldest": group.oldest,
        "newest": group.newest,
        "example": _job(group.example),
    }


_ACTIONS = ("list", "groups", "show", "retry", "delete")
_LOOKS = ("list", "groups", "show")
_ONLY_WITH = {
    "--json": _LOOKS,
    "--limit": ("list", "retry", "delete"),
    "--after": ("list",),
    "--all": ("retry", "delete"),
    "--one-more": ("retry",),
    "--yes": ("retry", "delete"),
}
"""The actions that use an option; with any other action it is an error."""


@click.command()
@click.option("--queue", "-q", help="The queue. [default: all of them, to look at; one must be named to change it]")
@partitions_option
@click.option("--json", "as_object", is_flag=True, help="Print one JSON document.")
@names_the_app
@click.option("--task", help="Only jobs of this task.")
@click.option("--error", help="Only jobs that died of this type of error, such as ValueError.")
@click.option("--text", help="Only jobs whose error contains this text.")
@click.option("--older-than", help="Only jobs that died at least so long ago, such as 2d.")
@click.option("--newer-than", help="Only jobs that died at most so long ago, such as 30m.")
@click.option("--limit", type=click.IntRange(1), help="At most so many jobs. [default: 100 to list, else all]")
@click.option("--after", default="", help="Where to go on, as an earlier list said.")
@click.option("--all", "everything", is_flag=True, help="Retry or delete all jobs, when nothing else is asked for.")
@click.option("--one-more", is_flag=True, help="Retry with one more attempt each: what was used up is not given again.")
@click.option("--yes", is_flag=True, help="Retry or delete without asking.")
@click.argument("words", nargs=-1, metavar="[list | groups | show ID | retry [ID]... | delete [ID]...]")
def dead(
    *,
    queue: str | None,
    partitions: int | None,
    as_object: bool,
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
    """Show the jobs that failed for good, one by one or grouped by error; run them again, or delete them.

    `retry` and `delete` take ids, or a filter (--task, --error, --text, --older-than, --newer-than), or --all.
    """
    action = words[0] if words else "list"
    ids = words[1:]
    given_flags = {"--json": as_object, "--limit": limit, "--after": after, "--all": everything}
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
            _look(sets, action, matching, limit or 100, after, as_object=as_object)
            return
        assert queue is not None
        chosen = lw.queue(queue).dead
        if action == "show":
            _show(chosen, queue, ids, as_object=as_object)
        elif ids:
            _each(lw, queue, action, ids, anew=not one_more)
        else:
            _all(chosen, queue, action, matching, limit, anew=not one_more, yes=yes)


def _check(action: str, ids: tuple[str, ...], asked: dict[str, object]) -> None:
    if action not in _ACTIONS:
        raise click.UsageError(f"{action!r} is none of {', '.join(_ACTIONS)}")
    if ids and action in ("list", "groups"):
        raise click.UsageError(f"{action} takes a filter, and no ids")
    for option, actions in _ONLY_WITH.items():
        if asked[option] and action not in actions:
            raise click.UsageError(f"{option} goes with {' or '.join(actions)}, not with {action}")


def _check_words(action: str, queue: str | None, ids: tuple[str, ...], *, chosen: bool, limited: bool) -> None:
    if queue is None:
        raise click.UsageError(f"name the --queue to {action} in")
    if action == "show":
        if len(ids) != 1 or chosen:
            raise click.UsageError("show takes one id, and no filter")
    elif ids and (chosen or limited):
        raise click.UsageError("give ids, or a filter, not both")
    elif not ids and not chosen:
        raise click.UsageError(f"{action} what? Give ids, a filter, or --all")


def _read(name: str, text: str) -> float | str:
    return duration(text) if name in ("older_than", "newer_than") else text


def _look(
    sets: dict[str, DeadSet], action: str, matching: Matching, limit: int, after: str, *, as_object: bool
) -> None:
    if after and len(sets) != 1:
        raise click.UsageError("--after goes with the --queue that it came from")
    if action == "groups":
        groups = {name: found.groups(**matching) for name, found in sets.items()}
        click.echo(groups_json(groups)) if as_object else show_groups(groups)
        return
    pages = {name: found.search(limit=limit, after=after, **matching) for name, found in sets.items()}
    click.echo(jobs_json(pages)) if as_object else show_jobs(pages)


def _show(chosen: DeadSet, queue: str, ids: tuple[str, ...], *, as_object: bool) -> None:
    (id,) = ids
    job = chosen.get(id)
    if job is None:
        raise ConfigError(f"no job {id!r} is dead in queue {queue!r}")
    click.echo(job_json(job)) if as_object else show_job(job)


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
    if not yes:
        count = chosen.count(**matching)
        meant = count if limit is None else min(count, limit)
        if not meant:
            click.echo("no dead job matches")
            return
        jobs = "dead job" if meant == 1 else "dead jobs"
        click.confirm(f"{action} {meant:,} {jobs} of queue {queue!r}?", err=True, abort=True)
    if action == "retry":
        done = chosen.retry_all(anew=anew, limit=limit, **matching)
    else:
        done = chosen.delete_all(limit=limit, **matching)
    click.echo(f"{done} {_done(action)}")


def _done(action: str) -> str:
    return {"retry": "will run again", "delete": "deleted"}[action]
