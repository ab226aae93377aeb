"""The screen of `lockwork top`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.widgets import Footer, Sparkline, Static

from lockwork import words
from lockwork.cli.fitted_table import FittedColumn, FittedTable, number
from lockwork.cli.jobs import place, ran
from lockwork.cli.text import EMPTY, HIDDEN, arguments, count, printable, state
from lockwork.cli.top_watcher import Screen, Watcher
from lockwork.errors import LockworkError
from lockwork.inspection.lock_owners import owner_name
from lockwork.protocol.locks.overview import LockSnapshot

_LONGEST = 60
"""Characters of arguments that are shown."""
_FINDINGS = 3
"""Lines for findings."""
_COLUMNS: dict[str, Sequence[FittedColumn]] = {
    "queues": (
        FittedColumn("queue", 12), number("ready"), number("running"), number("scheduled"), number("dead"),
        number("workers"), number("done/s", 1), number("failed/s", 2),
    ),
    "running": (
        FittedColumn("job"), FittedColumn("queue", 10, 1), FittedColumn("task", 12), number("for"),
        FittedColumn("worker", 10, 2), FittedColumn("arguments", 10, 3),
    ),
    "workers": (FittedColumn("worker", 10), number("runs"), number("lease left", 1)),
    "locks": (FittedColumn("lock", 10), FittedColumn("holder", 24), number("waiters"), number("for", 1)),
}  # fmt: skip
"""The counts come before the optional columns."""


class Top(App[None]):
    """Queues above, running jobs below them, workers and locks at the bottom."""

    CSS: ClassVar[str] = """
    #head { height: 1; padding: 0 1; }
    #rates { height: 2; padding: 0 1; }
    #findings { height: auto; padding: 0 1; text-wrap: nowrap; text-overflow: ellipsis; display: none; }
    Vertical { border-top: solid $primary; border-title-style: bold; padding: 0 1; height: 1fr; }
    Horizontal { height: 1fr; }
    #workers-section { width: 3fr; }
    #locks-section { width: 5fr; }
    FittedTable { height: 1fr; scrollbar-size: 0 1; scrollbar-gutter: stable; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q,escape,ctrl+c", "quit", "Quit"),
        Binding("p", "pause", "Pause"),
        Binding("tab", "app.focus_next", "Next table"),
    ]
    ENABLE_COMMAND_PALETTE: ClassVar[bool] = False

    def __init__(self, watcher: Watcher, every: float) -> None:
        super().__init__()
        self._watcher = watcher
        self._every = every
        self._paused = False
        self._reading = False
        self._head = Static(id="head")

    def compose(self) -> ComposeResult:
        """Lay out the screen."""
        yield self._head
        yield Sparkline([0.0], id="rates")
        yield Static(id="findings")
        yield self._section("queues")
        yield self._section("running")
        with Horizontal():
            yield self._section("workers")
            yield self._section("locks")
        yield Footer()

    def _section(self, name: str) -> Vertical:
        section = Vertical(FittedTable(_COLUMNS[name], id=name), id=f"{name}-section")
        section.border_title = "running jobs" if name == "running" else name
        return section

    def on_ready(self) -> None:
        """Refresh now, and then regularly."""
        self.set_interval(self._every, self._read_soon)
        self._read_soon()

    def action_pause(self) -> None:
        """Stop refreshing, or continue."""
        self._paused = not self._paused
        self._read_soon()

    def _read_soon(self) -> None:
        if self._paused:
            self._head.update(state("paused", "paused: p resumes"))
        elif not self._reading:
            self._reading = True
            self.run_worker(self._read, thread=True)  # a slow server must not stop the keys

    def _read(self) -> None:
        try:
            screen = self._watcher.read()
        except LockworkError as error:
            self.call_from_thread(self._show_problem, str(error))
        else:
            self.call_from_thread(self._show, screen)

    def _show_problem(self, text: str) -> None:
        self._reading = False
        if self._head.is_attached:
            self._head.update(state("serious", printable(f"the figures below are old: {text}")))

    def _show(self, view: Screen) -> None:
        self._reading = False
        if self._paused or not self._head.is_attached:  # the user paused or left during this read
            return
        head = Text.assemble(
            (f"{view.rates[-1]:,.1f} jobs/s", "bold"),
            f"  ready {view.total('ready'):,}  running {view.total('running'):,}"
            f"  scheduled {view.total('scheduled'):,}  ",
            state("dead", f"dead {view.total('dead'):,}") if view.total("dead") else "dead 0",
            (f"  peak {max(view.rates):,.1f} jobs/s", "dim") if any(view.rates) else "",
        )
        self._head.update(head)
        self.query_one("#rates", Sparkline).data = list(view.rates) if any(view.rates) else []
        findings = self.query_one("#findings", Static)
        findings.display = bool(view.findings)
        findings.update(_findings(view))
        self.query_one("#locks-section", Vertical).border_title = _locks_title(view)
        self._table("queues").show(_queues(view))
        self._table("running").show(_running(view))
        self._table("workers").show(_workers(view))
        self._table("locks").show(_locks(view))

    def _table(self, name: str) -> FittedTable:
        return self.query_one(f"#{name}", FittedTable)


def _queues(view: Screen) -> Iterable[Sequence[str | Text]]:
    for line in view.queues:
        status = line.status
        unserved = status.ready + status.scheduled and not line.workers
        yield [
            state("paused", f"{printable(line.name)} (paused)") if status.paused else printable(line.name),
            count(status.ready),
            count(status.running, "running"),
            count(status.scheduled),
            count(status.dead, "dead"),
            state("dead", "none") if unserved else count(line.workers),
            f"{line.done:,.1f}",
            state("failed", f"{line.failed:,.1f}") if line.failed else "0.0",
        ]


def _running(view: Screen) -> Iterable[Sequence[str | Text]]:
    now = datetime.now(UTC)
    for job in view.running:
        call = HIDDEN if job.hidden else arguments(job.args, job.kwargs, encrypted=job.encrypted)
        yield [
            printable(job.id),
            printable(job.partition),
            printable(job.task or "?"),
            state("running", ran(job.started, now)),
            place(job.worker),
            call if len(call) <= _LONGEST else f"{call[:_LONGEST]}...",
        ]


def _workers(view: Screen) -> Iterable[Sequence[str | Text]]:
    for worker in view.workers:
        yield [place(worker.session), f"{worker.running:,}", words.age(worker.expires_in)]


def _findings(view: Screen) -> Text:
    """Return a line for each of the first findings; `lockwork doctor` says more."""
    findings = view.findings if len(view.findings) <= _FINDINGS else view.findings[: _FINDINGS - 1]
    lines = [
        Text.assemble(state(finding.level), (f" {printable(finding.subject)}: ", "bold"), printable(finding.text))
        for finding in findings
    ]
    if rest := len(view.findings) - len(findings):
        lines.append(Text(f"and {rest} more: lockwork doctor", style="dim"))
    return Text("\n").join(lines)


def _locks_title(view: Screen) -> str:
    if view.locks is None:
        return "locks not checked"
    deadlocks = len(view.locks.deadlocks)
    return f"locks, {deadlocks} DEADLOCKED" if deadlocks else "locks"


def _locks(view: Screen) -> Iterable[Sequence[str | Text]]:
    """Return the rows of locks, the most waiters first."""
    if view.locks is None:
        return
    for lock in sorted(view.locks.locks, key=lambda lock: -len(lock.line) - lock.more_waiters):
        name = printable(lock.name or EMPTY if lock.kind == "lock" else f"{lock.kind} {lock.name}")
        waiters = len(lock.line) + lock.more_waiters
        yield [name, printable(_holders(lock)), count(waiters, "retrying"), _held_for(lock)]


def _holders(lock: LockSnapshot) -> str:
    """Name the first holder, by its job if it has one."""
    if not lock.holders:
        return ""
    holder = lock.holders[0].holder
    more = len(lock.holders) + lock.more_holders - 1
    name = f"{holder.job} {holder.task}" if holder.job else owner_name(holder)
    return name + (f" +{more}" if more else "")


def _held_for(lock: LockSnapshot) -> str:
    return words.age(lock.holders[0].held_for) if lock.holders else ""
