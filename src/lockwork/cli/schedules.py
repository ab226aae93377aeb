"""`lockwork schedules`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click
from rich.text import Text

from lockwork.app.lockwork import Lockwork
from lockwork.cli.action_group import ActionGroup
from lockwork.cli.completion import schedule_names
from lockwork.cli.names import unknown
from lockwork.cli.options import Scope, queue_option, scoped
from lockwork.cli.report import Output, Report, prints_json, reports
from lockwork.cli.table import Column, Listing
from lockwork.cli.text import moment, printable, state, until
from lockwork.errors import ConfigError
from lockwork.schedules.schedule import Schedule, ScheduleStatus

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

schedules: ActionGroup = ActionGroup(
    "schedules",
    default="show",
    help="""Show the schedules that workers have declared; pause, resume or run a schedule now.

    A schedule does not fire if no running worker has it in its code.
    """,
)
_scope = scoped(queue_option("The queue of the schedule. [default: all of them]"))
_NAME = click.argument("name", shell_complete=schedule_names)


@schedules.command(
    "show",
    examples={
        "lockwork schedules": "All schedules and their next slots.",
        "lockwork schedules show run": "A schedule whose name is an action.",
    },
)
@click.argument("name", required=False, shell_complete=schedule_names)
@_scope
@reports
def _show(*, name: str | None, scope: Scope, output: Output) -> None:
    """Show all schedules, or the schedules of one name."""
    with scope.open(read_only=True) as lw:
        output.show(lambda: _report(lw, _chosen(_all(lw, scope.queue), name)))


@schedules.command("pause", examples={"lockwork schedules pause nightly": "Skip its slots until `resume`."})
@_NAME
@_scope
@prints_json
def _pause(*, name: str, scope: Scope, output: Output) -> None:
    """Skip the slots of a schedule."""
    _change(name, scope, output, Schedule.pause)


@schedules.command("resume", examples={"lockwork schedules resume nightly": "Fire it again."})
@_NAME
@_scope
@prints_json
def _resume(*, name: str, scope: Scope, output: Output) -> None:
    """Fire a paused schedule again."""
    _change(name, scope, output, Schedule.resume)


@schedules.command("run", examples={"lockwork schedules run nightly": "Enqueue its job now; prints the job's id."})
@_NAME
@_scope
@prints_json
def _run(*, name: str, scope: Scope, output: Output) -> None:
    """Enqueue the job of a schedule now."""
    with scope.open(read_only=True) as lw:
        status = _only(lw, name, scope.queue)
        job = lw.schedule(status.name, queue=status.queue).run_now()
        if job is None:
            raise ConfigError(
                f"schedule {status.name} was not run: it allows no overlap, and its last job, {status.last_job}, has "
                "not ended"
            )
        text = f"job {job.id} of task {status.task} enqueued in queue {job.queue}"
        document = {"job": job.id, "queue": job.queue, "task": status.task}
        output.show(lambda: Report(document, [text]))


def _change(name: str, scope: Scope, output: Output, change: Callable[[Schedule], bool]) -> None:
    """Pause or resume a schedule, and show it."""
    with scope.open(read_only=True) as lw:
        status = _only(lw, name, scope.queue)
        if not change(lw.schedule(status.name, queue=status.queue)):
            raise ConfigError(f"schedule {status.name} has been deleted")
        output.show(lambda: _report(lw, _chosen(lw.schedules(status.queue), status.name)))


def _only(lw: Lockwork, name: str, queue: str | None) -> ScheduleStatus:
    (schedule, *others) = _chosen(_all(lw, queue), name)
    if others:
        places = ", ".join(printable(each.queue) for each in (schedule, *others))
        raise ConfigError(f"schedule {name} is in several queues ({places}): name its --queue")
    return schedule


def _all(lw: Lockwork, queue: str | None) -> list[ScheduleStatus]:
    names = lw.queues() if queue is None else [queue]
    return [schedule for name in names for schedule in lw.schedules(name)]


def _chosen(schedules: Sequence[ScheduleStatus], name: str | None) -> Sequence[ScheduleStatus]:
    if name is None:
        return schedules
    chosen = [each for each in schedules if each.name == name]
    if not chosen:
        raise unknown("schedule", name, {each.name for each in schedules})
    return chosen


def _report(lw: Lockwork, schedules: Sequence[ScheduleStatus]) -> Report:
    served = {name: bool(lw.queue(name).workers()) for name in {each.queue for each in schedules}}
    rows = [_row(each, fires=each.declared and served[each.queue]) for each in schedules]
    empty = "no worker has declared a schedule: it is @lw.task(cron=...) or lw.schedule(...)"
    return Report({"schedules": [_document(each) for each in schedules]}, [Listing(_COLUMNS, rows, empty=empty)])


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
