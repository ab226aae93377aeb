"""The screen of `lockwork top`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.widgets import DataTable, Footer, Sparkline, Static

from lockwork.cli.jobs import place, ran
from lockwork.cli.table import GAP, shrunk
from lockwork.cli.text import HIDDEN, arguments, count, lasting, printable, state
from lockwork.cli.top import Screen, Watcher
from lockwork.errors import LockworkError
from lockwork.protocol.locks.overview import LockSnapshot, read

_COLUMNS: dict[str, Sequence[str]] = {
    "queues": ("queue", "ready", "running", "dead", "workers", "done/s", "failed/s", "scheduled"),
    "running": ("job", "queue", "task", "for", "worker", "arguments"),
    "workers": ("worker", "runs", "lease left"),
    "locks": ("lock", "holder", "for", "waiters"),
}
_CUT: dict[str, dict[int, int]] = {
    "queues": {0: 12},
    "running": {1: 10, 2: 10, 5: 10},
    "workers": {0: 12},
    "locks": {0: 10, 1: 10},
}
"""Columns whose cells are cut where there is no room for all, with the least that is kept."""
_LONGEST = 60
"""Characters of arguments that are shown."""


class Top(App[None]):
    """Queues above, running jobs below them, workers and locks at the bottom."""

    CSS: ClassVar[str] = """
    #head { height: 1; padding: 0 1; }
    #rates { height: 2; margin: 0 1; }
    Vertical { border-top: solid $primary; border-title-style: bold; padding: 0 1; height: 1fr; }
    Horizontal { height: 1fr; }
    #workers-section { width: 2fr; }
    #locks-section { width: 3fr; }
    DataTable { height: 1fr; scrollbar-size-horizontal: 0; }
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
        self._looking = False

    def compose(self) -> ComposeResult:
        """Lay out the screen."""
        yield Static(id="head")
        yield Sparkline([0.0], id="rates")
        yield self._section("queues")
        yield self._section("running")
        with Horizontal():
            yield self._section("workers")
            yield self._section("locks")
        yield Footer()

    def _section(self, name: str) -> Vertical:
        table: DataTable[Text] = DataTable(id=name, cursor_type="none")
        for column in _COLUMNS[name]:
            table.add_column(column, key=column)
        section = Vertical(table, id=f"{name}-section")
        section.border_title = "running jobs" if name == "running" else name
        return section

    def on_mount(self) -> None:
        """Look at once, and then regularly."""
        self.set_interval(self._every, self._look)
        self._look()

    def action_pause(self) -> None:
        """Stop looking, or go on."""
        self._paused = not self._paused
        self._look()

    def _look(self) -> None:
        if self._paused:
            self.query_one("#head", Static).update(state("paused", "paused: p resumes"))
        elif not self._looking:
            self._looking = True
            self.run_worker(self._read, thread=True)  # a slow server must not stop the keys

    def _read(self) -> None:
        try:
            found = self._watcher.look()
        except LockworkError as error:
            self.call_from_thread(self._show_problem, str(error))
        else:
            self.call_from_thread(self._show, found)

    def _show_problem(self, said: str) -> None:
        self._looking = False
        self.query_one("#head", Static).update(state("serious", printable(f"the figures below are old: {said}")))

    def _show(self, view: Screen) -> None:
        self._looking = False
        if self._paused:  # since this look began
            return
        head = Text.assemble(
            (f"{view.rates[-1]:,.1f} jobs/s", "bold"),
            f"  ready {view.total('ready'):,}  running {view.total('running'):,}"
            f"  scheduled {view.total('scheduled'):,}  ",
            state("dead", f"dead {view.total('dead'):,}") if view.total("dead") else "dead 0",
            (f"  peak {max(view.rates):,.1f} jobs/s", "dim") if any(view.rates) else "",
        )
        self.query_one("#head", Static).update(head)
        self.query_one("#rates", Sparkline).data = list(view.rates) if any(view.rates) else []
        self._fill("queues", _queues(view))
        self._fill("running", _running(view))
        self._fill("workers", _workers(view))
        self._fill("locks", map(_lock, view.locks.locks))
        deadlocks = len(view.locks.deadlocks)
        title = f"locks, {deadlocks} DEADLOCKED" if deadlocks else "locks"
        self.query_one("#locks-section", Vertical).border_title = title

    def _fill(self, name: str, rows: Iterable[Sequence[str | Text]]) -> None:
        table = self.query_one(f"#{name}", DataTable)
        scroll = table.scroll_y
        table.clear()
        for cells in _fitted(name, [list(map(_cell, cells)) for cells in rows], table.scrollable_content_region.width):
            table.add_row(*cells)
        table.scroll_to(y=scroll, animate=False)


def _fitted(name: str, rows: Sequence[Sequence[Text]], room: int) -> Iterable[Sequence[Text]]:
    """Cut the cells that may be cut, so that the columns behind them are seen."""
    titles = _COLUMNS[name]
    natural = {at: max([len(titles[at]), *(row[at].cell_len for row in rows)]) for at in range(len(titles))}
    floors = natural | {at: min(natural[at], least) for at, least in _CUT[name].items()}
    widths = shrunk(natural, floors, room - GAP)  # a blank stands on both sides of each cell
    for row in rows:
        for at in _CUT[name]:
            row[at].truncate(widths[at], overflow="ellipsis")
    return rows


def _cell(given: str | Text) -> Text:
    text = Text(given) if isinstance(given, str) else given.copy()
    if text.plain[:1].isdigit():
        text.justify = "right"
    return text


def _queues(view: Screen) -> Iterable[Sequence[str | Text]]:
    for line in view.queues:
        status = line.status
        unserved = status.ready + status.scheduled and not line.workers
        yield [
            state("paused", f"{printable(line.name)} (paused)") if status.paused else printable(line.name),
            count(status.ready),
            count(status.running, "running"),
            count(status.dead, "dead"),
            state("dead", "none") if unserved else count(line.workers),
            f"{line.done:,.1f}",
            state("failed", f"{line.failed:,.1f}") if line.failed else "0.0",
            count(status.scheduled),
        ]


def _running(view: Screen) -> Iterable[Sequence[str | Text]]:
    now = datetime.now(UTC)
    for job in view.running:
        given = HIDDEN if job.task in view.hidden else arguments(job.args, job.kwargs)
        yield [
            printable(job.id),
            printable(job.partition),
            printable(job.task or "?"),
            state("running", ran(job.started, now)),
            place(job.worker),
            given if len(given) <= _LONGEST else f"{given[:_LONGEST]}...",
        ]


def _workers(view: Screen) -> Iterable[Sequence[str | Text]]:
    for worker in view.workers:
        yield [place(worker.session), f"{worker.running:,}", lasting(max(0.0, worker.expires_in))]


def _lock(lock: LockSnapshot) -> Sequence[str | Text]:
    name = printable(lock.name if lock.kind == "lock" else f"{lock.kind} {lock.name}")
    waiters = len(lock.line) + lock.more_waiters
    if not lock.holders:
        return [name, "", "", f"{waiters:,}"]
    first = lock.holders[0]
    who = read(first.holder.owner)
    more = len(lock.holders) + lock.more_holders - 1
    holder = f"{who.host}/{who.pid} {who.label}" if who.host else first.holder.owner
    return [name, printable(holder) + (f" +{more}" if more else ""), lasting(first.held_for), f"{waiters:,}"]
