"""`lockwork job`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any

import click
from rich.console import RenderableType
from rich.text import Text

from lockwork.app.lockwork import Lockwork
from lockwork.cli.announced import Announced
from lockwork.cli.completion import queue_names, verbs
from lockwork.cli.flows import graph, tree
from lockwork.cli.help import Command
from lockwork.cli.jobs import place, ran, shown_state
from lockwork.cli.names import id_and_action, unknown
from lockwork.cli.options import duration, names_the_app, opened, partitions_option
from lockwork.cli.report import Output, Report, reports
from lockwork.cli.table import Column, Listing, facts
from lockwork.cli.text import HIDDEN, ago, arguments, moment, printable, sized, state, unfolded, until, value
from lockwork.errors import ConfigError
from lockwork.jobs.job import Job
from lockwork.jobs.snapshot import Attempt, JobSnapshot
from lockwork.protocol.queues.flow_graph import FlowNode

_ACTIONS = ("cancel", "retry", "reschedule", "delete")
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


@click.command(
    cls=Command,
    examples={
        "lockwork job 0NnhHJ0kVzCPa1Gg": "A job: arguments, attempts, traceback, progress, flow.",
        "lockwork job 0NnhHJ0kVzCPa1Gg --watch 1": "The same, again every second.",
        "lockwork job 0NnhHJ0kVzCPa1Gg cancel": "Cancel a waiting or running job.",
        "lockwork job 0NnhHJ0kVzCPa1Gg retry": "Run a dead, cancelled or expired job again.",
        "lockwork job 0NnhHJ0kVzCPa1Gg reschedule --delay 10m": "Move a waiting job to another time.",
        "lockwork job 0NnhHJ0kVzCPa1Gg delete": "Delete a job that does not run.",
    },
)
@click.argument("id")
@click.argument(
    "action", required=False, metavar="[cancel | retry | reschedule | delete]", shell_complete=verbs(_ACTIONS)
)
@click.option("--queue", "-q", shell_complete=queue_names, help="The queue of the job. [default: search all queues]")
@partitions_option
@click.option("--delay", help="retry, reschedule: after this time, such as 10m.")
@click.option("--at", help="reschedule: at this time, such as 2026-12-24T18:00+01:00.")
@reports
@names_the_app
def job(
    *,
    id: str,
    action: str | None,
    queue: str | None,
    partitions: int | None,
    delay: str | None,
    at: str | None,
    output: Output,
    url: str | None,
    prefix: str,
) -> None:
    """Show, cancel, retry, reschedule or delete a job.

    Actions run without a question. An action that does not apply fails with status 1 and a reason.
    """
    given, action = id_and_action(id, action, _ACTIONS)
    assert given is not None
    id = given
    if delay is not None and action not in ("retry", "reschedule"):
        raise click.UsageError("--delay is an option of retry and reschedule")
    if at is not None and action != "reschedule":
        raise click.UsageError("--at is an option of reschedule")
    if action == "reschedule" and (delay is None) == (at is None):
        raise click.UsageError("reschedule takes --delay or --at")
    if output.watch is not None and action:
        raise click.UsageError("--watch cannot be used with an action")
    moved: dict[str, Any] = {} if at is None else {"at": _time(at)}
    if delay is not None:
        moved = {"delay": duration(delay, "--delay")}
    with opened(url, prefix, queue, partitions, looks=True) as lw:
        found = _found(lw, id, queue)
        if not action:
            output.show(lambda: _report(lw, found))
            return
        said = _act(found, action, moved)
        output.show(lambda: Report({"job": id, "queue": found.queue, "state": found.state()}, [said]))


def _time(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise click.UsageError(f"--at is a time such as 2026-12-24T18:00+01:00, not {text!r:.80}") from None
    return found if found.tzinfo else found.astimezone()


def _found(lw: Lockwork, id: str, queue: str | None) -> Job[Any]:
    names = lw.queues() if queue is None else [each.name for each in lw.queue(queue).partitions]
    for name in names:
        found = lw.job(id, queue=name)
        if found.inspect().state != "unknown":
            return found
    raise unknown("job", id, [each.id for each in lw.jobs(queue, limit=200).jobs], ids=True)


def _act(found: Job[Any], action: str, moved: dict[str, Any]) -> str:
    before = found.state()
    if action == "cancel":
        # the API cancels a cancelled job again; here somebody may have mistaken its id
        done, said = before != "cancelled" and found.cancel(), "cancelled"
        if before == "running":
            said = "is being cancelled by its worker"
        why = "only a waiting or running job can be cancelled"
    elif action == "retry":
        done, said = found.retry(**moved), "will run again"
        if moved:
            said += f" {until(found.inspect().due)}"
        why = "only a dead, cancelled or expired job can be retried"
        if before in _RETRIED:
            why = "another job has its unique name, or jobs that it waits for have not ended"
    elif action == "delete":
        done, said = found.delete(), "deleted"
        why = "a running job cannot be deleted; cancel it first"
    else:
        done, said = found.reschedule(**moved), "will run"
        if done:
            due = found.inspect().due
            said += f" at {moment(due)}, {until(due)}" if due else " now"
        why = "only a waiting job can be rescheduled"
        if before in _RETRIED:
            why += "; retry it with --delay"
    if not done:
        raise ConfigError(f"job {found.id} is {found.state()}: {why}")
    return f"job {found.id} {said}"


def _report(lw: Lockwork, found: Job[Any]) -> Report:
    seen = found.inspect()
    nodes = [] if seen.flow is None else graph(lw, seen.flow, found.queue)
    document = {field.name: getattr(seen, field.name) for field in fields(JobSnapshot)} | {"graph": nodes}
    hidden = seen.task in Announced.read(lw).hidden
    if hidden:
        document |= {"args": None, "kwargs": None}
    return Report(document, list(_body(seen, nodes, hidden=hidden)))


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
    if seen.args is not None or seen.kwargs is not None:
        yield "arguments", HIDDEN if hidden else _cut(arguments(seen.args, seen.kwargs))
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
    yield "started", _time_and_age(seen.started, now)
    yield "ended", _time_and_age(seen.ended, now)
    if seen.started and seen.enqueued:
        yield "waited", ran(seen.enqueued, seen.started)
    running = seen.state == "running"
    yield ("runs for" if running else "ran"), ran(seen.started, seen.ended or (now if running else None))
    yield "attempt", "" if not seen.attempt else str(seen.attempt)
    yield "worker", place(seen.worker)
    yield "priority", "" if seen.priority == "normal" else seen.priority
    yield "key", printable(seen.key or "")
    yield "group", printable(seen.group or "")
    yield "tags", printable(", ".join(seen.tags))
    yield "schedule", printable(seen.schedule or "")
    yield "stock", printable(seen.stock or "")
    yield "checkpoints", ", ".join(f"{printable(name)}={_cut(value(each))}" for name, each in seen.checkpoints.items())
    yield "size", sized(seen.size)


def _time_and_age(then: datetime | None, now: datetime) -> str:
    return f"{moment(then)}, {ago(then, now)} ago" if then else ""


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}... ({len(text):,} characters)"


def _attempt(each: Attempt) -> list[str | Text]:
    error = printable(f"{each.error.type}: {each.error.text}") if each.error and each.error.type else ""
    return [
        str(each.number),
        moment(each.started),
        ran(each.started, each.ended or (datetime.now(UTC) if each.outcome == "running" else None)),
        state(_OUTCOMES.get(each.outcome, each.outcome), each.outcome),
        place(each.worker),
        error,
    ]
