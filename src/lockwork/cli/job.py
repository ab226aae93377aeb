"""`lockwork job`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any, TypeVar

import click
from rich.console import RenderableType
from rich.text import Text

from lockwork.app.lockwork import Lockwork
from lockwork.cli.action_group import ActionGroup
from lockwork.cli.announced import Announced
from lockwork.cli.flows import graph, tree
from lockwork.cli.jobs import place, ran, shown_state
from lockwork.cli.names import unknown
from lockwork.cli.options import Scope, duration, queue_option, scoped
from lockwork.cli.report import Output, Report, prints_json, reports
from lockwork.cli.table import Column, Listing, facts
from lockwork.cli.text import EMPTY, HIDDEN, ago, arguments, moment, printable, size, state, unfolded, until, value
from lockwork.errors import ConfigError
from lockwork.jobs.job import Job, shown_snapshot
from lockwork.jobs.snapshot import Attempt, JobSnapshot, State, process_deaths
from lockwork.jobs.waits import on_embedded
from lockwork.protocol.flows.flow_graph import FlowNode

F = TypeVar("F", bound=Callable[..., object])
_ATTEMPTS = (
    Column("attempt", right=True),
    Column("started"),
    Column("ran", right=True),
    Column("outcome"),
    Column("worker", least=100),
    Column("error"),
)
_OUTCOMES = {"failed": "retrying", "died": "dead"}
_RETRIED = ("dead", "cancelled", "expired")
_LONGEST = 2000
"""Characters of a value that are shown."""


job: ActionGroup = ActionGroup(
    "job",
    default="show",
    help="""Show, cancel, retry, reschedule or delete a job.

    Actions run without a question. An action that does not apply fails with status 1 and a reason.
    """,
)


def _one_job(command: F) -> F:
    """Give a command the id of a job, and the options of its queue."""
    scope = scoped(queue_option("The queue of the job. [default: search all queues]"))
    return click.argument("id")(scope(command))


@job.command(
    "show",
    examples={
        "lockwork job 0NnhHJ0kVzCPa1Gg": "A job: arguments, attempts, traceback, progress, flow.",
        "lockwork job 0NnhHJ0kVzCPa1Gg --watch 1": "The same, again every second.",
    },
)
@_one_job
@reports
def _show(*, id: str, scope: Scope, output: Output) -> None:
    """Show a job."""
    with scope.open(read_only=True) as lw:
        chosen = _found(lw, id, scope.queue)
        output.show(lambda: _report(lw, chosen))


@job.command("cancel", examples={"lockwork job cancel 0NnhHJ0kVzCPa1Gg": "Cancel a waiting or running job."})
@_one_job
@prints_json
def _cancel(*, id: str, scope: Scope, output: Output) -> None:
    """Cancel a waiting or running job."""

    def cancel(chosen: Job[Any], before: State) -> tuple[bool, str, str]:
        # the API cancels a cancelled job again; here the id may be a mistake
        text = "is being cancelled by its worker" if before == "running" else "cancelled"
        done = before != "cancelled" and chosen.cancel()
        return done, text, "only a waiting or running job can be cancelled"

    _change(id, scope, output, cancel)


@job.command(
    "retry",
    examples={
        "lockwork job retry 0NnhHJ0kVzCPa1Gg": "Run a dead, cancelled or expired job again.",
        "lockwork job retry 0NnhHJ0kVzCPa1Gg --delay 10m": "Ten minutes from now.",
    },
)
@click.option("--delay", help="Run the job after this time, such as 10m.")
@_one_job
@prints_json
def _retry(*, id: str, delay: str | None, scope: Scope, output: Output) -> None:
    """Run a dead, cancelled or expired job again."""
    delays = {} if delay is None else {"delay": duration(delay, "--delay")}

    def retry(chosen: Job[Any], before: State) -> tuple[bool, str, str]:
        done = chosen.retry(**delays)
        text = "will run again" + (f" {until(chosen.inspect().due)}" if delays else "")
        if before in _RETRIED:
            return done, text, "another job has its unique name, or jobs that it waits for have not ended"
        return done, text, "only a dead, cancelled or expired job can be retried"

    _change(id, scope, output, retry)


@job.command(
    "reschedule",
    examples={"lockwork job reschedule 0NnhHJ0kVzCPa1Gg --delay 10m": "Move a waiting job to another time."},
)
@click.option("--delay", help="After this time, such as 10m.")
@click.option("--at", help="At this time, such as 2026-12-24T18:00+01:00.")
@_one_job
@prints_json
def _reschedule(*, id: str, delay: str | None, at: str | None, scope: Scope, output: Output) -> None:
    """Move a waiting job to another time."""
    if (delay is None) == (at is None):
        raise click.UsageError("reschedule takes --delay or --at")
    time: dict[str, Any] = {"at": _time(at)} if at is not None else {"delay": duration(delay or "", "--delay")}

    def reschedule(chosen: Job[Any], before: State) -> tuple[bool, str, str]:
        why = "only a waiting job can be rescheduled"
        if before in _RETRIED:
            why += "; retry it with --delay"
        if not chosen.reschedule(**time):
            return False, "", why
        due = chosen.inspect().due
        return True, f"will run at {moment(due)}, {until(due)}" if due else "will run now", why

    _change(id, scope, output, reschedule)


@job.command("delete", examples={"lockwork job delete 0NnhHJ0kVzCPa1Gg": "Delete a job that does not run."})
@_one_job
@prints_json
def _delete(*, id: str, scope: Scope, output: Output) -> None:
    """Delete a job that does not run."""
    why = "a running job cannot be deleted; cancel it first"
    _change(id, scope, output, lambda chosen, _: (chosen.delete(), "deleted", why))


def _change(id: str, scope: Scope, output: Output, change: Callable[[Job[Any], State], tuple[bool, str, str]]) -> None:
    """Change a job and print the result; `change` returns success, the result, and why it may fail."""
    with scope.open(read_only=True) as lw:
        chosen = _found(lw, id, scope.queue)
        done, text, why = change(chosen, chosen.state())
        if not done:
            raise ConfigError(f"job {chosen.id} is {chosen.state()}: {why}")
        document = {"job": id, "queue": chosen.queue, "state": chosen.state()}
        output.show(lambda: Report(document, [f"job {chosen.id} {text}"]))


def _time(text: str) -> datetime:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise click.UsageError(f"--at is a time such as 2026-12-24T18:00+01:00, not {text!r:.80}") from None
    return time if time.tzinfo else time.astimezone()


def _found(lw: Lockwork, id: str, queue: str | None) -> Job[Any]:
    names = lw.queues() if queue is None else [each.name for each in lw.queue(queue).partitions]
    for name in names:
        job = lw.job(id, queue=name)
        if job.inspect().state != "unknown":
            return job
    known = [each.id for each in lw.jobs(queue, limit=200).jobs]
    raise unknown("job", id, known, ids=True, on_embedded=on_embedded(lw.runtime))


def _report(lw: Lockwork, job: Job[Any]) -> Report:
    snapshot = shown_snapshot(job)
    nodes = [] if snapshot.flow is None else graph(lw, snapshot.flow, job.queue)
    document = {field.name: getattr(snapshot, field.name) for field in fields(JobSnapshot)} | {"graph": nodes}
    hidden = snapshot.hidden or snapshot.task in Announced.read(lw).hidden
    if hidden:  # its key and group may contain its arguments
        document |= {"args": None, "kwargs": None, "key": None, "group": None, "hidden": True}
    return Report(document, list(_body(snapshot, nodes, hidden=hidden)))


def _body(seen: JobSnapshot, nodes: list[FlowNode], *, hidden: bool) -> Iterator[RenderableType]:
    yield facts(_facts(seen, datetime.now(UTC), hidden=hidden))
    if seen.timeline:
        yield ""
        yield Listing(_ATTEMPTS, map(_attempt, seen.timeline))
    if seen.error and seen.error.traceback:
        yield ""
        yield from (unfolded(line) for line in seen.error.traceback.splitlines())
    if nodes:
        yield Text(f"\nflow {printable(seen.flow or '')}", style="bold")
        yield tree(nodes, seen.id)


def _facts(seen: JobSnapshot, now: datetime, *, hidden: bool) -> Iterator[tuple[str, str | Text]]:
    yield "job", printable(seen.id)
    yield "queue", printable(seen.queue)
    yield "task", printable(seen.task or "")
    yield "state", shown_state(seen.state, retrying=seen.state == "scheduled" and seen.error is not None)
    if seen.encrypted or seen.args is not None or seen.kwargs is not None:
        text = _cut(arguments(seen.args, seen.kwargs, encrypted=seen.encrypted))
        yield "arguments", HIDDEN if hidden else text
    if seen.progress is not None:
        yield "progress", _cut(value(seen.progress))
    if seen.state == "succeeded":
        yield "result", _cut(value(seen.result))
    if seen.error:
        yield "error", printable(f"{seen.error.type}: {seen.error.text}" if seen.error.type else seen.error.text)
    yield "enqueued", _time_and_age(seen.enqueued, now)
    if seen.state == "scheduled":
        yield "due", f"{moment(seen.due)}, {until(seen.due, now)}"
    yield "expires", f"{moment(seen.expires)}, {until(seen.expires, now)}" if seen.expires else ""
    if seen.retry_until:
        yield "retry until", f"{moment(seen.retry_until)}, {until(seen.retry_until, now)}"
    yield "started", _time_and_age(seen.started, now)
    yield "ended", _time_and_age(seen.ended, now)
    if seen.started and seen.enqueued:
        yield "waited", ran(seen.enqueued, seen.started)
    running = seen.state == "running"
    yield ("runs for" if running else "ran"), ran(seen.started, seen.ended or (now if running else None))
    yield "timeout", "ignored: the job overran" if seen.overran else ""
    yield "attempt", "" if not seen.attempt else str(seen.attempt)
    deaths = process_deaths(seen.crashes, seen.shared_crashes)
    yield "crashes", f"{deaths}; it runs alone next" if seen.suspect else deaths
    yield "worker", place(seen.worker)
    yield "priority", "" if seen.priority == "normal" else str(seen.priority)
    yield "key", HIDDEN if hidden and seen.key is not None else _name(seen.key)
    yield "group", HIDDEN if hidden and seen.group is not None else _name(seen.group)
    yield "tags", printable(", ".join(seen.tags))
    yield "schedule", printable(seen.schedule or "")
    yield "stock", _name(seen.stock)
    yield "checkpoints", ", ".join(f"{printable(name)}={_cut(value(each))}" for name, each in seen.checkpoints.items())
    yield "size", size(seen.size)


def _time_and_age(then: datetime | None, now: datetime) -> str:
    return f"{moment(then)}, {ago(then, now)} ago" if then else ""


def _name(name: str | None) -> str:
    return "" if name is None else printable(name or EMPTY)


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}... ({len(text):,} characters)"


def _attempt(each: Attempt) -> list[str | Text]:
    error = printable(f"{each.error.type}: {each.error.text}") if each.error and each.error.type else ""
    return [
        str(each.number),
        moment(each.started),
        ran(each.started, each.ended or (datetime.now(UTC) if each.outcome == "running" else None)),
        state(_OUTCOMES.get(each.outcome, each.outcome), f"{each.outcome}, overran" if each.overran else each.outcome),
        place(each.worker),
        error,
    ]
