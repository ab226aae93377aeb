"""`lockwork schedules`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click
from rich.text import Text

from lockwork.app.lockwork import Lockwork
from lockwork.cli.completion import queue_names, schedule_names, words_of
from lockwork.cli.help import Command
from lockwork.cli.names import action_hint, split_action, unknown
from lockwork.cli.options import names_the_app, opened, partitions_option
from lockwork.cli.report import Output, Report, reports
from lockwork.cli.table import Column, Listing
from lockwork.cli.text import moment, printable, state, until
from lockwork.errors import ConfigError
from lockwork.schedules.schedule import ScheduleStatus

_COLUMNS = (
    Column("schedule", whole=True),
    Column("queue"),
    Column("task", least=100),
    Column("when"),
    Column("state", whole=True),
    Column("next", whole=True),
    Column("last", whole=True, least=120),
    Column("enqueued", right=True),
    Column("overlapped", right=True, least=100),
    Column("missed", right=True, least=100),
)
_ACTIONS = ("pause", "resume", "run")


@click.command(
    cls=Command,
    examples={
        "lockwork schedules": "All schedules and their next slots.",
        "lockwork schedules pause nightly": "Skip its slots until `resume`.",
        "lockwork schedules run nightly": "Enqueue its job now; prints the job's id.",
    },
)
@click.option("--queue", "-q", shell_complete=queue_names, help="The queue of the schedule. [default: all of them]")
@partitions_option
@reports
@names_the_app
@click.argument(
    "words",
    nargs=-1,
    metavar="[pause | resume | run] [NAME]",
    shell_complete=words_of(_ACTIONS, schedule_names),
)
def schedules(
    *,
    queue: str | None,
    partitions: int | None,
    output: Output,
    url: str | None,
    prefix: str,
    words: tuple[str, ...],
) -> None:
    """Show the schedules that workers have declared; pause, resume or run a schedule now.

    A schedule does not fire if no running worker has it in its code.
    """
    action, name = _meant(words)
    if output.watch is not None and action:
        raise click.UsageError("--watch cannot be used with an action")
    with opened(url, prefix, queue, partitions, looks=True) as lw:
        if not action:
            output.show(lambda: _report(lw, _chosen(_all(lw, queue), name)))
            return
        (found, *others) = _chosen(_all(lw, queue), name)
        if others:
            places = ", ".join(printable(each.queue) for each in (found, *others))
            raise ConfigError(f"schedule {name} is in several queues ({places}): name its --queue")
        _act(lw, found, action, output)


def _meant(words: tuple[str, ...]) -> tuple[str, str | None]:
    """Read the action, empty for none, and the schedule's name; None: all."""
    action, names = split_action(words, _ACTIONS)
    if len(names) > 1:
        hint = action_hint(words, _ACTIONS)
        raise click.UsageError(f"pass pause, resume or run, and the schedule's name{hint}")
    if action and not names:
        raise click.UsageError(f"{action} which schedule?")
    return action, (names[0] if names else None)


def _all(lw: Lockwork, queue: str | None) -> list[ScheduleStatus]:
    names = lw.queues() if queue is None else [queue]
    return [found for name in names for found in lw.schedules(name)]


def _chosen(found: Sequence[ScheduleStatus], name: str | None) -> Sequence[ScheduleStatus]:
    if name is None:
        return found
    chosen = [each for each in found if each.name == name]
    if not chosen:
        raise unknown("schedule", name, {each.name for each in found})
    return chosen


def _act(lw: Lockwork, found: ScheduleStatus, action: str, output: Output) -> None:
    handle = lw.schedule(found.name, queue=found.queue)
    if action == "run":
        job = handle.run_now()
        if job is None:
            raise ConfigError(
                f"schedule {found.name} was not run: it allows no overlap, and its last job, {found.last_job}, has not "
                "ended"
            )
        document = {"job": job.id, "queue": job.queue, "task": found.task}
        output.show(lambda: Report(document, [f"job {job.id} of task {found.task} enqueued in queue {job.queue}"]))
        return
    if not (handle.pause() if action == "pause" else handle.resume()):
        raise ConfigError(f"schedule {found.name} has been deleted")
    output.show(lambda: _report(lw, _chosen(lw.schedules(found.queue), found.name)))


def _report(lw: Lockwork, found: Sequence[ScheduleStatus]) -> Report:
    served = {name: bool(lw.queue(name).workers()) for name in {each.queue for each in found}}
    rows = [_row(each, fires=each.declared and served[each.queue]) for each in found]
    empty = "no worker has declared a schedule: it is @lw.task(cron=...) or lw.schedule(...)"
    return Report({"schedules": [_document(each) for each in found]}, [Listing(_COLUMNS, rows, empty=empty)])


def _row(each: ScheduleStatus, *, fires: bool) -> list[str | Text]:
    following = next(iter(each.next), None)
    return [
        printable(each.name),
        printable(each.queue),
        printable(each.task),
        printable(each.when),
        _state(each, fires=fires),
        until(following) if fires and not each.paused else "",
        moment(each.last),
        f"{each.enqueued:,}",
        f"{each.overlapped:,}" if each.overlapped else "",
        f"{each.missed:,}" if each.missed else "",
    ]


def _state(each: ScheduleStatus, *, fires: bool) -> Text:
    if each.paused:
        return state("paused")
    return state("open") if fires else state("dead", "no worker")


def _document(each: ScheduleStatus) -> dict[str, Any]:
    return {name: getattr(each, name) for name in ScheduleStatus.__dataclass_fields__}
