"""`lockwork dead`."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import click
from msgspec import Struct

from lockwork.cli.action_group import ActionGroup
from lockwork.cli.announced import Announced
from lockwork.cli.completion import task_names
from lockwork.cli.dead_reports import groups_report, job_report, jobs_report
from lockwork.cli.options import Scope, duration, queue_option, scoped, yes_option
from lockwork.cli.progress import progress
from lockwork.cli.report import Output, prints_json, reports
from lockwork.errors import ConfigError
from lockwork.queues.dead import DeadSet, Matching, checked_filter

F = TypeVar("F", bound=Callable[..., object])

dead: ActionGroup = ActionGroup(
    "dead",
    default="list",
    help="""Show the jobs that failed for good, one by one or grouped by error; retry or delete them.

    `retry` and `delete` take ids, or a filter (--task, --error, --older-than, --newer-than), or --all.
    """,
)
_any_queue = scoped(queue_option("The queue. [default: all queues]"))
_one_queue = scoped(queue_option("The queue.", required=True))


def _filtered(command: F) -> F:
    """Give a command the options that select jobs; it receives them as its argument `matching`."""

    @click.option("--task", shell_complete=task_names, help="Only jobs of this task.")
    @click.option("--error", "text", help="Only jobs whose error has this text in its type or message.")
    @click.option("--older-than", help="Only jobs that died at least this long ago, such as 2d.")
    @click.option("--newer-than", help="Only jobs that died at most this long ago, such as 30m.")
    @wraps(command)
    def wrapped(
        *args: Any, task: str | None, text: str | None, older_than: str | None, newer_than: str | None, **options: Any
    ) -> object:
        matching: Matching = {}
        if task is not None:
            matching["task"] = task
        if text is not None:
            matching["text"] = text
        if older_than is not None:
            matching["older_than"] = duration(older_than, "--older-than")
        if newer_than is not None:
            matching["newer_than"] = duration(newer_than, "--newer-than")
        checked_filter(matching)  # there may be no queue to search in
        return command(*args, matching=matching, **options)

    return wrapped  # type: ignore[return-value]  # click calls it by name


@dead.command("list", examples={"lockwork dead": "The dead jobs of all queues, the newest first."})
@_filtered
@click.option("--limit", default=100, show_default=True, type=click.IntRange(1), help="Maximum number of jobs.")
@click.option("--after", default="", help="Where to continue, as printed by an earlier list.")
@_any_queue
@reports
def _list(*, matching: Matching, limit: int, after: str, scope: Scope, output: Output) -> None:
    """List dead jobs, the newest first."""
    with scope.open(read_only=True) as lw:
        names = lw.queues() if scope.queue is None else [scope.queue]
        if after and len(names) != 1:
            raise click.UsageError("--after needs the --queue of the earlier list")
        hidden, sets = Announced.read(lw).hidden, {name: lw.queue(name).dead for name in names}
        output.show(
            lambda: jobs_report(
                {name: jobs.search(limit=limit, after=after, **matching) for name, jobs in sets.items()},
                hidden,
                _empty(matching),
            )
        )


@dead.command("groups", examples={"lockwork dead groups": "Grouped by error and task."})
@_filtered
@_any_queue
@reports
def _groups(*, matching: Matching, scope: Scope, output: Output) -> None:
    """Group dead jobs by error and task."""
    with scope.open(read_only=True) as lw:
        names = lw.queues() if scope.queue is None else [scope.queue]
        hidden, sets = Announced.read(lw).hidden, {name: lw.queue(name).dead for name in names}
        output.show(
            lambda: groups_report(
                {name: jobs.groups(**matching) for name, jobs in sets.items()}, hidden, _empty(matching)
            )
        )


def _empty(matching: Matching) -> str:
    return "no dead job matches" if matching else "no job is dead"


@dead.command("show", examples={"lockwork dead show -q mail 0NnhHJ0kVzCPa1Gg": "One job with its traceback."})
@click.argument("id")
@_one_queue
@prints_json
def _show(*, id: str, scope: Scope, output: Output) -> None:
    """Show a dead job with its arguments and traceback."""
    with scope.open(read_only=True) as lw:
        assert scope.queue is not None
        job = lw.queue(scope.queue).dead.get(id)
        if job is None:
            raise ConfigError(f"no job {id!r} is dead in queue {scope.queue!r}")
        hidden = Announced.read(lw).hidden
        output.show(lambda: job_report(job, hidden))


def _changes(command: F) -> F:
    """Give a command ids, a filter, and the options of a change of many jobs."""
    command = yes_option(_one_queue(command))
    command = click.option("--limit", type=click.IntRange(1), help="Maximum number of jobs. [default: all]")(command)
    command = click.option("--all", "everything", is_flag=True, help="All jobs, if no filter is given.")(command)
    return click.argument("ids", nargs=-1, metavar="[ID]...")(_filtered(command))


@dead.command(
    "retry",
    examples={
        "lockwork dead retry -q mail --error SMTPError --newer-than 2h": "Run some again, after a question.",
        "lockwork dead retry -q mail 0NnhHJ0kVzCPa1Gg": "Run one again.",
    },
)
@_changes
@click.option("--one-more", is_flag=True, help="Retry each job with one more attempt, instead of all its attempts.")
def _retry(*, one_more: bool, **options: Any) -> None:
    """Run dead jobs again."""
    anew = not one_more
    _Change(
        "retry",
        "retrying",
        "will run again",
        lambda jobs, one: jobs.retry(one, anew=anew),
        lambda jobs, limit, matching: jobs.retry_all(anew=anew, limit=limit, **matching),
    ).run(**options)


@dead.command("delete", examples={"lockwork dead delete -q mail --all --yes": "Delete all, without asking."})
@_changes
def _delete(**options: Any) -> None:
    """Delete dead jobs."""
    _Change(
        "delete",
        "deleting",
        "deleted",
        DeadSet.delete,
        lambda jobs, limit, matching: jobs.delete_all(limit=limit, **matching),
    ).run(**options)


class _Change(Struct, frozen=True):
    """A change of dead jobs: the words for it, and how it changes one job or all that match."""

    action: str
    doing: str
    done: str
    one: Callable[[DeadSet, str], bool]
    all: Callable[[DeadSet, int | None, Matching], int]

    def run(
        self,
        *,
        ids: tuple[str, ...],
        matching: Matching,
        everything: bool,
        limit: int | None,
        yes: bool,
        scope: Scope,
    ) -> None:
        """Change the jobs with these ids, or all that match, after a question."""
        chosen = bool(matching or everything)
        if ids and (chosen or limit is not None):
            raise click.UsageError("pass ids or a filter, not both")
        if not ids and not chosen:
            raise click.UsageError(f"{self.action} needs ids, a filter, or --all")
        with scope.open(read_only=False) as lw:
            assert scope.queue is not None
            jobs = lw.queue(scope.queue).dead
            if ids:
                self._change_each(jobs, scope.queue, ids)
            else:
                self._change_all(jobs, scope.queue, matching, limit, yes=yes)

    def _change_each(self, jobs: DeadSet, queue: str, ids: tuple[str, ...]) -> None:
        missing = [id for id in ids if not self.one(jobs, id)]
        if len(missing) < len(ids):
            click.echo(f"{len(ids) - len(missing)} {self.done}")
        if missing:
            raise click.ClickException(f"not dead in queue {queue!r}: {', '.join(missing)}")

    def _change_all(self, jobs: DeadSet, queue: str, matching: Matching, limit: int | None, *, yes: bool) -> None:
        before = jobs.count()
        if not yes:
            with progress("counting", before, lambda: 0):
                count = jobs.count(**matching)
            selected = count if limit is None else min(count, limit)
            if not selected:
                raise ConfigError(f"nothing to {self.action}: no dead job matches")
            noun = "dead job" if selected == 1 else "dead jobs"
            click.confirm(f"{self.action} {selected:,} {noun} of queue {queue!r}?", err=True, abort=True)
        total = before if limit is None else min(before, limit)
        with progress(self.doing, total, lambda: before - jobs.count(), changes=True):
            done = self.all(jobs, limit, matching)
        click.echo(f"{done:,} {self.done}")
