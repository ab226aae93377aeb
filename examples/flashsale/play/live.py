"""What a viewer sees while the sale is on, in a terminal: bars, and what happened below them."""

from __future__ import annotations

from typing import Self

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.segment import Segment
from rich.style import Style
from rich.table import Table
from rich.text import Text

from play.screen import Moment


class LiveScreen:
    """Redraws itself a few times a second."""

    def __init__(self, console: Console, buyers: int) -> None:
        self._console = console
        self._buyers = buyers
        # as wide as it will ever be, so that the bars keep their length
        self._width = len(f"{buyers:,} of {buyers:,}, {3 * buyers:,} requests")
        self._seconds = 0.0
        self._said: list[Text] = []
        self._bars: RenderableType = Text("  starting a Valkey server, the workers and the shop ...", style="dim")
        self._live = Live(console=console, refresh_per_second=10, get_renderable=self.picture)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def show(self, moment: Moment) -> None:
        """Draw the sale as it is now."""
        self._seconds = moment.seconds
        seen, stock, jobs = moment.seen, moment.stock, moment.jobs
        rows = Table.grid(padding=(0, 1))
        rows.add_column(min_width=8)
        rows.add_column(ratio=1)
        rows.add_column(no_wrap=True, min_width=self._width)
        rows.expand = True
        placed = moment.orders["placed"]
        rows.add_row(
            "  buyers",
            ProgressBar(max(self._buyers, 1), seen.buyers),
            f"{seen.buyers:,} of {self._buyers:,}, {seen.requests:,} requests",
        )
        phones = Text.assemble(
            (f"{stock.sold:,} sold", "green"), ", ", (f"{stock.reserved:,} reserved", "yellow"),
            ", ", f"{stock.available:,} on sale",
        )  # fmt: skip
        parts = [(stock.sold, "green"), (stock.reserved, "yellow"), (stock.available, "bright_black")]
        rows.add_row("  phones", Stacked(parts), phones)
        rows.add_row(
            "  orders",
            ProgressBar(max(placed, 1), moment.settled),
            f"{moment.settled:,} of {placed:,} settled, {jobs.running:,} running",
        )
        clock = Text(f"  {moment.seconds:5.1f} s  {moment.phase}", style="dim")
        self._bars = Group(rows, clock, "")

    def say(self, text: str) -> None:
        """Write it below the bars, with the time."""
        self._said.append(Text.assemble((f"  {self._seconds:5.1f} s  ", "dim"), (text, "bold")))

    def picture(self) -> RenderableType:
        """The bars, and what happened."""
        return Group(self._bars, *self._said)


class Stacked:
    """A bar of several parts, told apart without colour too."""

    FILL = "█▓░"
    PLAIN = "#+."

    def __init__(self, parts: list[tuple[int, str]]) -> None:
        self._parts = parts

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw it as wide as there is room."""
        total = max(sum(count for count, _ in self._parts), 1)
        glyphs = self.PLAIN if options.ascii_only else self.FILL
        drawn = done = 0
        for (count, colour), glyph in zip(self._parts, glyphs, strict=True):
            done += count
            end = round(options.max_width * done / total)
            yield Segment(glyph * (end - drawn), Style(color=colour))
            drawn = end
