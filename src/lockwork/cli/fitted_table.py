"""A table of `lockwork top`: its columns always fit its width."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from rich.text import Text
from textual.widgets import DataTable

from lockwork.cli.table import GAP, shrunk, total_width

_LEAST = 6
"""Columns of the terminal that are kept of a cut cell."""


class FittedColumn(NamedTuple):
    """One column: its title, and what gives way when there is no room."""

    title: str
    floor: int = 0
    """Cells are cut to this width, and to less only when no column can be left out; 0: never."""
    optional: int = 0
    """Without room, the column with the highest number is left out first; 0: never."""
    right: bool = False
    """Align to the right."""


def number(title: str, optional: int = 0) -> FittedColumn:
    """Return a column of numbers, which are never cut."""
    return FittedColumn(title, optional=optional, right=True)


class FittedTable(DataTable[Text]):
    """A table without a cursor."""

    def __init__(self, columns: Sequence[FittedColumn], *, id: str) -> None:
        super().__init__(id=id, cursor_type="none")
        self._fitted_columns = columns
        self._cells: list[list[Text]] = []

    def show(self, rows: Iterable[Sequence[str | Text]]) -> None:
        """Replace all rows."""
        self._cells = [[Text(cell) if isinstance(cell, str) else cell for cell in row] for row in rows]
        self._fit()

    def on_resize(self) -> None:
        """Fit the columns to the new width."""
        self._fit()

    def _fit(self) -> None:
        columns, scroll = self._fitted_columns, self.scroll_y
        widths = _widths(columns, self._cells, self.scrollable_content_region.width)
        self.clear(columns=True)
        for at, width in widths.items():
            self.add_column(_fitted(Text(columns[at].title), columns[at], width), width=width)
        for row in self._cells:
            self.add_row(*(_fitted(row[at], columns[at], width) for at, width in widths.items()))
        self.scroll_to(y=scroll, animate=False)


def _fitted(cell: Text, column: FittedColumn, width: int) -> Text:
    cell = cell.copy()
    cell.truncate(width, overflow="ellipsis")
    cell.justify = "right" if column.right else "left"
    return cell


def _widths(columns: Sequence[FittedColumn], rows: Sequence[Sequence[Text]], room: int) -> Mapping[int, int]:
    """Return the columns that fit, with their widths."""
    room -= GAP  # a blank is on both sides of each cell
    natural_widths = {
        at: max([len(column.title), *(row[at].cell_len for row in rows)]) for at, column in enumerate(columns)
    }
    floors = {at: min(width, columns[at].floor or width) for at, width in natural_widths.items()}
    optional = sorted((at for at in natural_widths if columns[at].optional), key=lambda at: columns[at].optional)
    widths = shrunk(natural_widths, floors, room)
    while total_width(widths) > room and optional:
        del natural_widths[optional.pop()]
        widths = shrunk(natural_widths, floors, room)
    return shrunk(widths, {at: _LEAST if columns[at].floor else width for at, width in widths.items()}, room)
