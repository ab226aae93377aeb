"""`lockwork schedules`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click
from rich.text import Text

from lockwork.app.lockwork import Lockwork
from lockwork.cli.completion import queue_names, schedule_names, words_of
from lockwork.cli.help import Command
from lockwork.cli.names import action_hint, unknown
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
    metavar="[NAME | pause NAME | resume NAME | run NAME]",
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
    """Show the schedules that workers have declared; pause one, let it go on, or run it now.

    A schedule that no living worker has in its code does not fire.
    """
    action, name = _meant(words)
    if output.watch is not None and action:
        raise click.UsageError("--watch cannot be used with an action")
    with opened(url, prefix, queue, partitions, looks=True) as lw:
        if not action:
            output.show(lambda: _report(_chosen(_all(lw, queue), name)))
            return
        (found, *others) = _chosen(_all(lw, queue), name)
        if others:
            places = ", ".join(printable(each.queue) for each in (found, *others))
            raise ConfigError(f"schedule {name} is in several queues ({places}): name its --queue")
        _act(lw, found, action, output)


def _meant(words: tuple[str, ...]) -> tuple[str, str | None]:
    """Read the action, empty for none, and the schedule's name; None: all."""
    if not words:
        return "", None
    *verbs, name = words
    if len(verbs) > 1 or (verbs and verbs[0] not in _ACTIONS):
        hint = action_hint(verbs[:1], _ACTIONS)
        raise click.UsageError(f"pass pause, resume or run, and the schedule's name{hint}")
    if not verbs and name in _ACTIONS:
        raise click.UsageError(f"{name} which schedule?")
    return (verbs[0] if verbs else ""), name


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
    output.show(lambda: _report(_chosen(lw.schedules(found.queue), found.name)))


def _report(found: Sequence[ScheduleStatus]) -> Report:
    rows = [_row(each) for each in found]
    empty = "no worker has declared a schedule: it is @lw.task(cron=...) or lw.schedule(...)"
    return Report({"schedules": [_document(each) for each in found]}, [Listing(_COLUMNS, rows, empty=empty)])


def _row(each: ScheduleStatus) -> list[str | Text]:
    following = next(iter(each.next), None)
    return [
        printable(each.name),
        printable(each.queue),
        printable(each.task),
        printable(each.when),
        _state(each),
        f"{until(following)}" if each.declared and not each.paused else "",
        moment(each.last),
        f"{each.enqueued:,}",
        f"{each.overlapped:,}" if each.overlapped else "",
        f"{each.missed:,}" if each.missed else "",
    ]


def _state(each: ScheduleStatus) -> Text:
    if each.paused:
        return state("paused")
    return state("open") if each.declared else state("dead", "no worker")


def _document(each: ScheduleStatus) -> dict[str, Any]:
    return {name: getattr(each, name) for name in ScheduleStatus.__dataclass_fields__}
