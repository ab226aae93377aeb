"""`lockwork queue`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import click
from msgspec import Struct
from rich.text import Text

from lockwork.app.lockwork import Lockwork
from lockwork.cli.action_group import ActionGroup
from lockwork.cli.options import Scope, duration, queue_argument, scoped, yes_option
from lockwork.cli.progress import progress
from lockwork.cli.report import Output, Report, prints_json, reports
from lockwork.cli.table import Column, Listing
from lockwork.cli.text import count, printable, state
from lockwork.errors import ConfigError
from lockwork.inspection.overview import OverviewReader, Part
from lockwork.inspection.queue_state import QueueOverview
from lockwork.protocol.queue.status import QueueStatus
from lockwork.protocol.queue.task_limits import TaskLimitState
from lockwork.queues.limits import LimitSettings, QueueLimits
from lockwork.queues.queue import Queue
from lockwork.tasks.limits import breaker_text, rate_text
from lockwork.words import duration as duration_text
from lockwork.words import several

_COLUMNS = (
    Column("queue", whole=True),
    Column("state", whole=True),
    Column("ready", right=True),
    Column("running", right=True),
    Column("scheduled", right=True),
    Column("blocked", right=True),
    Column("dead", right=True),
    Column("workers", right=True),
    Column("limits"),
)


_TASK_COLUMNS = (
    Column("task", whole=True),
    Column("state", whole=True),
    Column("pause"),
    Column("running", right=True),
    Column("rate", right=True),
    Column("held", right=True),
    Column("pauses after"),
)


class _QueueView(Struct, frozen=True):
    """A queue: its name, jobs by place, limits, and how many worker processes serve it."""

    name: str
    status: QueueStatus
    limits: QueueLimits
    workers: int

    @classmethod
    def of(cls, queue: QueueOverview) -> _QueueView:
        return cls(queue.name, queue.status, queue.limits, len(queue.workers))

    @classmethod
    def read(cls, lw: Lockwork, name: str) -> _QueueView:
        """Read one queue, with all of its partitions."""
        names = lw.config.partitions.names(name)
        return cls.of(QueueOverview(name, OverviewReader().read(lw.runtime, Part.QUEUES, names=names).partitions))

    @classmethod
    def read_all(cls, lw: Lockwork, reader: OverviewReader) -> list[_QueueView]:
        """Read all queues, each partition as a queue."""
        overview = reader.read(lw.runtime, Part.QUEUES)
        return [cls.of(QueueOverview(partition.name, [partition])) for partition in overview.partitions]

    @property
    def document(self) -> dict[str, Any]:
        return {"queue": self.name, **asdict(self.status), "limits": asdict(self.limits), "workers": self.workers}

    @property
    def row(self) -> list[str | Text]:
        status = self.status
        return [
            printable(self.name),
            state("paused" if status.paused else "open"),
            count(status.ready),
            count(status.running, "running"),
            count(status.scheduled),
            f"{status.blocked:,}" if status.blocked else "",  # only flows have such jobs
            count(status.dead, "dead"),
            state("dead", "0") if not self.workers and status.ready + status.scheduled else count(self.workers),
            _limits_text(self.limits),
        ]


def _limits_text(limits: QueueLimits) -> str:
    texts = (
        ("rate", limits.rate),
        ("concurrency", None if limits.concurrency is None else f"{limits.concurrency:,}"),
        ("size", None if limits.size is None else f"{limits.size:,}"),
    )
    return ", ".join(f"{what} {limit}" for what, limit in texts if limit is not None)


def _report(seen: Sequence[_QueueView], tasks: Sequence[TaskLimitState] | None = None) -> Report:
    """Report all queues, or one with its tasks that have limits."""
    document = {"queues": [each.document for each in seen]} if tasks is None else seen[0].document
    listings = [Listing(_COLUMNS, [each.row for each in seen], empty="no queue has had a job")]
    if tasks:
        document["task_limits"] = [_task_document(each) for each in tasks]
        listings.append(Listing(_TASK_COLUMNS, [_task_row(each) for each in tasks], title="tasks with limits"))
    return Report(document, listings)


def _task_document(task: TaskLimitState) -> dict[str, Any]:
    return {**asdict(task), "limits": task.limits._asdict()}


def _task_row(task: TaskLimitState) -> list[str | Text]:
    limits = task.limits
    paused = "" if task.pause_ends_in is None else f"ends in {duration_text(task.pause_ends_in)}"
    return [
        printable(task.task),
        state(task.state),
        paused,
        f"{task.running:,}" + (f" of {limits.at_once:,}" if limits.at_once else ""),
        rate_text(limits) or "",
        count(task.waiting),
        breaker_text(limits) or "",
    ]


_NONE = "none"
_NUMBER = re.compile(r"\d{1,15}")


queue: ActionGroup = ActionGroup(
    "queue",
    default="show",
    help="""Show queues and their jobs; pause, limit, clear or drain a queue.

    A change applies to all workers at once; the command then shows the queue.
    """,
)
_CREATE = click.option("--create", is_flag=True, help="Accept a queue that does not exist yet.")


@queue.command(
    "show",
    examples={
        "lockwork queue": "All queues with their jobs and limits.",
        "lockwork queue mail --watch": "One queue, every 2 s.",
        "lockwork queue show pause": "A queue whose name is an action.",
    },
)
@scoped(queue_argument(required=False))
@reports
def _show(*, scope: Scope, output: Output) -> None:
    """Show all queues, or one."""
    with scope.open(read_only=True) as lw:
        name = scope.queue
        if name is None:
            reader = OverviewReader()
            output.show(lambda: _report(_QueueView.read_all(lw, reader)))
        else:
            _show_queue(lw.queue(name), lw, output)


@queue.command("pause", examples={"lockwork queue pause mail": "Start none of its jobs until `resume`."})
@_CREATE
@scoped(queue_argument())
@prints_json
def _pause(*, scope: Scope, create: bool, output: Output) -> None:
    """Start no more jobs of a queue."""
    with _changed(scope, output, create=create) as chosen:
        chosen.pause()


@queue.command(
    "resume",
    examples={
        "lockwork queue resume mail": "Start its jobs again.",
        "lockwork queue resume mail --task send": "End the pause of one task, by its circuit breaker.",
    },
)
@click.option("--task", help="Resume only this task, which its circuit breaker has paused.")
@scoped(queue_argument())
@prints_json
def _resume(*, scope: Scope, task: str | None, output: Output) -> None:
    """Start the jobs of a paused queue, or of a paused task, again."""
    with _changed(scope, output) as chosen:
        if task is None:
            chosen.resume()
        elif not chosen.resume_task(task):
            raise ConfigError(f"task {printable(task)} is not paused in queue {printable(chosen.name)}")


@queue.command(
    "limit",
    examples={"lockwork queue limit mail --rate 100/s --concurrency 50": "Limit it for all workers together."},
)
@click.option("--rate", help="How many jobs may start per period, such as 100/s; none removes the limit.")
@click.option("--concurrency", help="How many jobs may run at once; or none.")
@click.option("--size", help="How many jobs may wait, 0 to refuse new ones; or none.")
@_CREATE
@scoped(queue_argument())
@prints_json
def _limit(
    *, scope: Scope, rate: str | None, concurrency: str | None, size: str | None, create: bool, output: Output
) -> None:
    """Limit a queue for all workers; without options, show its limits."""
    limits = _limits(rate, concurrency=concurrency, size=size)
    with _changed(scope, output, create=create) as chosen:
        if limits:
            chosen.limit(**limits)


@queue.command("clear", examples={"lockwork queue clear mail": "Delete the waiting jobs, after a question."})
@yes_option
@scoped(queue_argument())
@prints_json
def _clear(*, scope: Scope, yes: bool, output: Output) -> None:
    """Delete the waiting jobs of a queue."""
    with _changed(scope, output) as chosen:
        waiting = _waiting(chosen)
        if not yes and waiting:
            jobs = several(waiting, "waiting job")
            click.confirm(f"delete {jobs} in queue {chosen.name!r}?", err=True, abort=True)
        with progress("deleting", waiting, lambda: waiting - _waiting(chosen), changes=True):
            cleared = chosen.clear()
        click.echo(f"{several(cleared, 'job')} deleted", err=True)


@queue.command(
    "drain",
    examples={
        "lockwork queue limit mail --size 0 && lockwork queue drain mail --timeout 5m": "Refuse new jobs, and wait.",
    },
)
@click.option("--timeout", help="How long to wait at most, such as 5m. [default: without a limit]")
@click.option("--delayed", is_flag=True, help="Wait for scheduled jobs, too.")
@scoped(queue_argument())
@prints_json
def _drain(*, scope: Scope, timeout: str | None, delayed: bool, output: Output) -> None:
    """Wait until a queue has no ready and no running job."""
    patience = None if timeout is None else duration(timeout, "--timeout")
    with _changed(scope, output) as chosen:
        total = _remaining(chosen, delayed=delayed)
        with progress("draining", total, lambda: total - _remaining(chosen, delayed=delayed)):
            chosen.drain(patience, delayed=delayed)


@contextmanager
def _changed(scope: Scope, output: Output, *, create: bool | None = None) -> Iterator[Queue]:
    """Open the queue for a change, and show it afterwards; `create` is None for actions that cannot create it."""
    with scope.open(read_only=False, create=create) as lw:
        assert scope.queue is not None
        chosen = lw.queue(scope.queue)
        yield chosen
        _show_queue(chosen, lw, output)


def _show_queue(chosen: Queue, lw: Lockwork, output: Output) -> None:
    output.show(lambda: _report([_QueueView.read(lw, chosen.name)], chosen.task_limits()))


def _remaining(chosen: Queue, *, delayed: bool) -> int:
    status = chosen.status()
    return status.ready + status.running + (status.scheduled if delayed else 0)


def _waiting(chosen: Queue) -> int:
    status = chosen.status()
    return status.ready + status.scheduled


def _limits(rate: str | None, **counts: str | None) -> LimitSettings:
    limits: LimitSettings = {}
    if rate is not None:
        limits["rate"] = None if rate == _NONE else rate
    for name in ("concurrency", "size"):
        text = counts[name]
        if text is not None and text != _NONE and not _NUMBER.fullmatch(text):
            raise click.UsageError(f"--{name} is a number of jobs, or none, not {text!r:.80}")
        if text is not None:
            limits[name] = None if text == _NONE else int(text)
    return limits
