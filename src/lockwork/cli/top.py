"""`lockwork top`: what it reads from the server, and the command."""

from __future__ import annotations

import sys
import time
from collections import deque
from dataclasses import dataclass, replace
from importlib.util import find_spec

import click

from lockwork.app.lockwork import Lockwork
from lockwork.cli.announced import Announced
from lockwork.cli.help import Command
from lockwork.cli.options import connected, names_the_app
from lockwork.errors import ConfigError
from lockwork.jobs.search import JobRow
from lockwork.protocol.locks.overview import Overview
from lockwork.protocol.queues.status import QueueStatus, WorkerInfo

_HISTORY = 120
"""Looks whose rates are kept for the line of throughput."""
_NEW = QueueStatus(0, 0, 0, 0, 0, 0, 0, 0, 0)
"""A queue before its first job."""
_RUNNING = 100
"""Running jobs that are read."""


@dataclass(frozen=True, slots=True)
class QueueLine:
    """One queue: its jobs by place, and the jobs that ended a second since the look before."""

    name: str
    status: QueueStatus
    workers: int
    done: float
    failed: float


@dataclass(frozen=True, slots=True)
class Screen:
    """What one look has found."""

    queues: list[QueueLine]
    workers: list[WorkerInfo]
    running: list[JobRow]
    locks: Overview
    hidden: frozenset[str]
    """Tasks whose arguments must not be shown."""
    rates: tuple[float, ...]
    """Jobs that ended a second, of the last looks, the newest last."""

    def total(self, place: str) -> int:
        """Jobs of all queues in a place."""
        return sum(getattr(line.status, place) for line in self.queues)


class Watcher:
    """Looks at the server again and again, and computes rates from one look to the next."""

    def __init__(self, lw: Lockwork) -> None:
        self._lw = lw
        self._counts: dict[str, QueueStatus] = {}
        self._at = 0.0
        self._rates: deque[float] = deque(maxlen=_HISTORY)

    def look(self) -> Screen:
        """Read queues, workers, running jobs and locks; raises LockworkError."""
        now = time.monotonic()
        passed = now - self._at
        lines: list[QueueLine] = []
        workers: dict[str, WorkerInfo] = {}
        for name in self._lw.queues():
            queue = self._lw.queue(name)
            status, serving = queue.status(), queue.workers()
            before = self._counts.get(name, _NEW if self._at else status)
            done = max(0, status.succeeded - before.succeeded) / passed
            failed = max(0, status.failed - before.failed) / passed
            lines.append(QueueLine(name, status, len(serving), done, failed))
            for worker in serving:
                other = workers.get(worker.session)
                running = worker.running + (other.running if other else 0)
                workers[worker.session] = replace(worker, running=running)
            self._counts[name] = status
        self._at = now
        self._rates.append(sum(line.done + line.failed for line in lines))
        jobs = self._lw.jobs(state="running", limit=_RUNNING, newest=False).jobs
        return Screen(
            lines, list(workers.values()), jobs, self._lw.locks(), Announced.read(self._lw).hidden, tuple(self._rates)
        )


@click.command(
    cls=Command,
    examples={
        "lockwork top": "The whole server, live; q quits.",
        "lockwork top --every 0.5": "Twice a second.",
    },
)
@click.option(
    "--every",
    default=1.0,
    show_default=True,
    type=click.FloatRange(0.2, 3600),
    metavar="SECONDS",
    help="Time between two updates.",
)
@names_the_app
def top(*, every: float, url: str | None, prefix: str) -> None:
    """Show throughput, queues, workers, running jobs and locks live in the terminal, also over ssh.

    It needs the extra `lockwork[top]`.
    """
    if find_spec("textual") is None:
        raise ConfigError('lockwork top needs Textual: pip install "lockwork[top]"')
    from lockwork.cli.top_screen import Top  # noqa: PLC0415 - it needs the extra

    if not sys.stdout.isatty():
        raise ConfigError("lockwork top needs a terminal: `lockwork status --watch` and --json go anywhere")
    with connected(url, prefix) as lw:
        lw.queues()  # a server that is away is an error of the command, before the screen opens
        Top(Watcher(lw), every).run()
