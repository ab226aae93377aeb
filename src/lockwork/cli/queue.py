"""`lockwork queue`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import click
from rich.text import Text

from lockwork.app.lockwork import Lockwork
from lockwork.cli.completion import queue_names, words_of
from lockwork.cli.help import Command
from lockwork.cli.names import action_hint, split_action
from lockwork.cli.options import duration, names_the_app, opened, partitions_option
from lockwork.cli.progress import progress
from lockwork.cli.report import Output, Report, reports
from lockwork.cli.table import Column, Listing
from lockwork.cli.text import count, printable, state
from lockwork.protocol.queues.status import QueueStatus
from lockwork.queues.limits import LimitSettings, QueueLimits
from lockwork.queues.queue import Queue
from lockwork.validation import several

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


@dataclass(frozen=True, slots=True)
class _QueueView:
    """A queue: its name, jobs by place, limits, and how many worker processes serve it."""

    name: str
    status: QueueStatus
    limits: QueueLimits
    workers: int

    @classmethod
    def of(cls, lw: Lockwork, name: str) -> _QueueView:
        queue = lw.queue(name)
        return cls(name, queue.status(), queue.limits(), len(queue.workers()))

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
    found = (
        ("rate", limits.rate),
        ("concurrency", None if limits.concurrency is None else f"{limits.concurrency:,}"),
        ("size", None if limits.size is None else f"{limits.size:,}"),
    )
    return ", ".join(f"{what} {limit}" for what, limit in found if limit is not None)


def _report(seen: Sequence[_QueueView], *, single: bool) -> Report:
    document = seen[0].document if single else {"queues": [each.document for each in seen]}
    return Report(document, [Listing(_COLUMNS, [each.row for each in seen], empty="no queue has had a job")])


_ACTIONS = ("status", "pause", "resume", "limit", "clear", "drain")
_CREATING = ("pause", "limit")
"""Actions that may create a queue."""
_NONE = "none"
_NUMBER = re.compile(r"\d{1,15}")


@click.command(
    cls=Command,
    examples={
        "lockwork queue": "All queues with their jobs and limits.",
        "lockwork queue mail --watch": "One queue, every 2 s.",
        "lockwork queue pause mail": "Start none of its jobs until `resume`.",
        "lockwork queue limit mail --rate 100/s --concurrency 50": "Limit it for all workers together.",
        "lockwork queue limit mail --size 0 && lockwork queue drain mail --timeout 5m": "Drain it.",
        "lockwork queue clear mail": "Delete the waiting jobs, after a question.",
    },
)
@reports
@names_the_app
@click.option("--rate", help="limit: how many jobs may start per period, such as 100/s; none removes the limit.")
@click.option("--concurrency", help="limit: how many jobs may run at once; or none.")
@click.option("--size", help="limit: how many jobs may wait, 0 to refuse new ones; or none.")
@click.option("--timeout", help="drain: how long to wait at most, such as 5m. [default: without a limit]")
@partitions_option
@click.option("--delayed", is_flag=True, help="drain: wait for scheduled jobs, too.")
@click.option("--create", is_flag=True, help="pause, limit: accept a queue that does not exist yet.")
@click.option("--yes", is_flag=True, help="clear: without asking.")
@click.argument(
    "words",
    nargs=-1,
    metavar="[status | pause | resume | limit | clear | drain] [NAME]",
    shell_complete=words_of(_ACTIONS, queue_names),
)
def queue(
    *,
    output: Output,
    url: str | None,
    prefix: str,
    timeout: str | None,
    partitions: int | None,
    delayed: bool,
    create: bool,
    yes: bool,
    words: tuple[str, ...],
    **given: str | None,
) -> None:
    """Show queues and their jobs; pause, limit, clear or drain a queue.

    A change applies to all workers at once; the command then shows the queue. `limit` without options changes nothing.
    """
    action, name = _meant(words)
    limits = _limits(given)
    if limits and action != "limit":
        raise click.UsageError("--rate, --concurrency and --size are options of limit")
    if (timeout is not None or delayed) and action != "drain":
        raise click.UsageError("--timeout and --delayed are options of drain")
    if create and action not in _CREATING:
        raise click.UsageError("--create is an option of pause and limit")
    if yes and action != "clear":
        raise click.UsageError("--yes is an option of clear")
    if output.watch is not None and action != "status":
        raise click.UsageError("--watch is an option of status")
    creating = create if action in _CREATING else None
    with opened(url, prefix, name, partitions, looks=action == "status", create=creating) as lw:
        if name is None:
            output.show(lambda: _report([_QueueView.of(lw, each) for each in lw.queues()], single=False))
            return
        if action == "clear":
            _clear(lw.queue(name), yes=yes)
        else:
            _act(lw.queue(name), action, limits, timeout, delayed=delayed)
        output.show(lambda: _report([_QueueView.of(lw, name)], single=True))


def _meant(words: tuple[str, ...]) -> tuple[str, str | None]:
    """Read the action and the queue's name; None: all queues."""
    action, names = split_action(words, _ACTIONS)
    if len(names) > 1:
        hint = action_hint(words, _ACTIONS)
        raise click.UsageError(f"give {', '.join(_ACTIONS[:-1])} or {_ACTIONS[-1]}, and the queue's name{hint}")
    if action not in ("", "status") and not names:
        raise click.UsageError(f"{action} which queue?")
    return action or "status", (names[0] if names else None)


def _act(chosen: Queue, action: str, limits: LimitSettings, timeout: str | None, *, delayed: bool) -> None:
    if action == "pause":
        chosen.pause()
    elif action == "resume":
        chosen.resume()
    elif action == "limit" and limits:
        chosen.limit(**limits)
    elif action == "drain":
        patience = None if timeout is None else duration(timeout, "--timeout")
        total = _left(chosen, delayed=delayed)
        with progress("draining", total, lambda: total - _left(chosen, delayed=delayed)):
            chosen.drain(patience, delayed=delayed)


def _left(chosen: Queue, *, delayed: bool) -> int:
    status = chosen.status()
    return status.ready + status.running + (status.scheduled if delayed else 0)


def _clear(chosen: Queue, *, yes: bool) -> None:
    waiting = _waiting(chosen)
    if not yes and waiting:
        jobs = several(waiting, "waiting job", "waiting jobs")
        click.confirm(f"delete {jobs} in queue {chosen.name!r}?", err=True, abort=True)
    with progress("deleting", waiting, lambda: waiting - _waiting(chosen), changes=True):
        cleared = chosen.clear()
    click.echo(f"{several(cleared, 'job', 'jobs')} deleted", err=True)


def _waiting(chosen: Queue) -> int:
    status = chosen.status()
    return status.ready + status.scheduled


def _limits(given: dict[str, str | None]) -> LimitSettings:
    found: LimitSettings = {}
    rate = given["rate"]
    if rate is not None:
        found["rate"] = None if rate == _NONE else rate
    for name in ("concurrency", "size"):
        text = given[name]
        if text is not None and text != _NONE and not _NUMBER.fullmatch(text):
            raise click.UsageError(f"--{name} is a number of jobs, or none, not {text!r:.80}")
        if text is not None:
            found[name] = None if text == _NONE else int(text)
    return found
