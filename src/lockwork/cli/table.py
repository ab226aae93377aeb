"""Tables that fit the terminal: less important columns are left out of a narrow one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text


class Column(NamedTuple):
    """One column: its title, and how its cells are laid out."""

    title: str
    right: bool = False
    """Align to the right, as numbers are."""
    cut: bool = False
    """Cut long cells by an ellipsis on a terminal; else they are folded."""
    whole: bool = False
    """Never fold or cut its cells: they are copied, as ids are."""
    least: int = 0
    """Columns of a terminal from which on this one is shown."""


class Listing:
    """A titled table, one row for each thing, without columns that are empty; or a line of text if there is none."""

    def __init__(
        self, columns: Sequence[Column], rows: Iterable[Sequence[str | Text]], *, title: str = "", empty: str = ""
    ) -> None:
        self._columns = columns
        self._rows = list(rows)
        self._title = title
        self._empty = empty

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if not self._rows:
            if self._empty:
                yield Text(self._empty)
            return
        shown = [
            at
            for at, column in enumerate(self._columns)
            if options.max_width >= column.least and any(row[at] for row in self._rows)
        ]
        table = Table(
            box=None,
            pad_edge=False,
            padding=(0, 2, 0, 0),
            header_style="bold",
            title=Text(self._title, style="bold") if self._title else None,
            title_justify="left",
        )
        for at in shown:
            column = self._columns[at]
            cut = column.cut and console.is_terminal
            table.add_column(
                column.title,
                justify="right" if column.right else "left",
                no_wrap=column.right or column.whole or cut,
                overflow="ellipsis" if cut else "fold",
            )
        for row in self._rows:
            table.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in (row[at] for at in shown)))
        yield table


def facts(rows: Iterable[tuple[str, str | Text]]) -> Table:
    """A table of names and values; those without a value are left out."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in rows:
        if text:
            table.add_row(name, Text(text) if isinstance(text, str) else text)
    return table
