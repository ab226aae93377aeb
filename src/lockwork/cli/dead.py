"""`lockwork dead`."""

from __future__ import annotations

import click

from lockwork.app.lockwork import Lockwork
from lockwork.cli.options import names_the_app
from lockwork.cli.deadjson import groups_json, job_json, jobs_json
from lockwork.cli.deadview import show_groups, show_job, show_jobs
from lockwork.cli.partitioned import opened, partitions_option
from lockwork.cli.quantities import duration
from lockwork.errors import ConfigError
from lockwork.queues.dead import DeadSet, Matching, checked_filter

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
"""What would be ignored with any other action, and so is an error there."""


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
