"""`lockwork schedules`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import click
from rich.text import Text

from lockwork.app.lockwork import Lockwork
from lockwork.cli.action_group import ActionGroup
from lockwork.cli.announced import Announced
from lockwork.cli.completion import schedule_names, task_names
from lockwork.cli.enqueue import check_task, json_option
from lockwork.cli.names import unknown
from lockwork.cli.options import Scope, duration, queue_option, scoped
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
    Column("origin", least=110),
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
    help="""Show the schedules of workers and of `create`; create, delete, pause, resume or run one.

    A schedule in code fires only while a worker with this code runs. `create` stores one on the server.
    """,
)
_scope = scoped(queue_option("The queue of the schedule. [default: all of them]"))
_task_scope = scoped(queue_option("The queue. [default: the task's]"))
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


@schedules.command(
    "create",
    examples={
        "lockwork schedules create mail:42 send --args '[42]' --cron '30 18 * * *'": "Every evening, in UTC.",
        "lockwork schedules create sweep sweep --every 10m --overlap skip": "Unless the last job has not ended.",
        "lockwork schedules create party send --args '[1]' --at 2026-12-31T18:00+01:00": "Once.",
    },
)
@click.option("--args", "positional", default="[]", metavar="JSON", help="Positional arguments, a JSON array.")
@click.option("--kwargs", "named", default="{}", metavar="JSON", help="Keyword arguments, a JSON object.")
@click.option("--cron", metavar="LINE", help="Minute, hour, day of the month, month, day of the week; or @daily.")
@click.option("--tz", metavar="ZONE", help="The time zone of --cron. [default: UTC]")
@click.option("--every", metavar="PERIOD", help="A period, such as 10m, instead of --cron.")
@click.option("--at", metavar="TIME", help="One time with its zone, such as 2026-12-31T18:00Z, instead of --cron.")
@click.option("--overlap", type=click.Choice(["allow", "skip"]), help="skip: not while the last job has not ended.")
@click.option("--misfire", type=click.Choice(["once", "skip", "all"]), help="Which missed slots run. [default: once]")
@click.argument("name")
@click.argument("task", shell_complete=task_names)
@_task_scope
@prints_json
def _create(
    *,
    name: str,
    task: str,
    positional: str,
    named: str,
    at: str | None,
    every: str | None,
    scope: Scope,
    output: Output,
    **options: Any,
) -> None:
    """Create the schedule NAME for TASK, or change it; it stays until `delete`."""
    args, kwargs = json_option(positional, "--args", list), json_option(named, "--kwargs", dict)
    given = {option: value for option, value in options.items() if value is not None}
    if every is not None:
        given["every"] = duration(every, "--every")
    if at is not None:
        given["at"] = _moment(at)
    with scope.open(read_only=False) as lw:
        check_task(Announced.read(lw), task, scope.queue, create=False)
        try:
            call = lw.remote_task(task, queue=scope.queue).call(*args, **kwargs)
        except TypeError as error:
            raise ConfigError(f"{error}: see --args and --kwargs") from None
        schedule = lw.create_schedule(call, name=name, **given)
        output.show(lambda: _report(lw, _chosen(lw.schedules(schedule.queue), name)))


@schedules.command("delete", examples={"lockwork schedules delete mail:42": "A schedule of `create`."})
@_NAME
@_scope
@prints_json
def _delete(*, name: str, scope: Scope, output: Output) -> None:
    """Delete a schedule that was created at run time; enqueued jobs stay."""
    with scope.open(read_only=True) as lw:
        status = _only(lw, name, scope.queue)
        deleted = lw.schedule(status.name, queue=status.queue).delete()
        text = f"schedule {printable(name)} of queue {printable(status.queue)} is deleted"
        output.show(lambda: Report({"schedule": name, "queue": status.queue, "deleted": deleted}, [text]))


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


def _moment(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise click.UsageError(f"--at must be a time such as 2026-12-31T18:00+01:00, not {text!r:.60}") from None


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
    empty = "there is no schedule: it is @lw.task(cron=...), lw.schedule(...) or lw.create_schedule(...)"
    return Report({"schedules": [_document(each) for each in schedules]}, [Listing(_COLUMNS, rows, empty=empty)])


def _row(each: ScheduleStatus, *, fires: bool) -> list[str | Text]:
    following = next(iter(each.next), None)
    return [
        printable(each.name),
        printable(each.queue),
        printable(each.task),
        printable(each.when),
        "run time" if each.created else "",
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
