"""Tables that fit the terminal: the less important columns give way, and ids and numbers stay whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

GAP = 2
"""Blanks between two columns."""
_INDENT = 4
_CUT, _FOLDED, _NAME = 12, 10, 24
"""Minimum width of a cut cell, of a folded cell, and of a name that should stay whole."""


class Column(NamedTuple):
    """One column: its title, and how its cells are laid out."""

    title: str
    right: bool = False
    """Align to the right, as numbers are; never fold or cut."""
    cut: bool = False
    """Cut long cells with an ellipsis on a terminal; otherwise fold them."""
    whole: bool = False
    """Fold its cells after all other columns, because people copy them, such as ids."""
    least: int = 0
    """Minimum width of a terminal that shows this column, if there is room."""
    below: int = 0
    """Minimum width of its cells; if there is no room for it, show them below their rows. 0: never."""
    wide: int = 0
    """On a terminal narrower than this, show its cells below their rows, even if they are short."""


class Listing:
    """A titled table, one row for each thing, without columns that are empty; or a line of text if there is none."""

    def __init__(
        self, columns: Sequence[Column], rows: Iterable[Sequence[str | Text]], *, title: str = "", empty: str = ""
    ) -> None:
        self._columns = columns
        self._rows = [[Text(cell) if isinstance(cell, str) else cell for cell in row] for row in rows]
        self._title = title
        self._empty = empty

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if not self._rows:
            if self._empty:
                yield Text(self._empty)
            return
        if self._title:
            yield Text(self._title, style="bold")
        room = options.max_width
        widths, below = self._layout(room)
        titles = [[Text(self._columns[at].title, style="bold")] for at in widths]
        yield from self._lines(titles, widths)
        for row in self._rows:
            yield from self._lines([self._fitted(console, at, row[at], widths[at]) for at in widths], widths)
            yield from self._lower([(at, row[at]) for at in below if row[at]], console, room - _INDENT)

    def _lower(self, cells: Sequence[tuple[int, Text]], console: Console, room: int) -> Iterator[Text]:
        """Put the cells below a row side by side, as many as a line has room for."""
        parts: list[Text] = []
        for at, cell in cells:
            if parts and cell_len(parts[-1].plain) + GAP + cell_len(cell.plain) <= room:
                parts[-1] = Text(" " * GAP).join([parts[-1], cell])
            else:
                parts += self._fitted(console, at, cell, room)
        for part in parts:
            yield _line(Text(" " * _INDENT), part)

    def _layout(self, room: int) -> tuple[Mapping[int, int], Sequence[int]]:
        """Return the columns of each row with their widths, and the columns whose cells go below the row."""
        natural: dict[int, int] = {}
        for at, column in enumerate(self._columns):
            longest = max(cell_len(row[at].plain) for row in self._rows)
            if longest and room >= column.least:
                natural[at] = min(room, max(longest, cell_len(column.title)))
        floors, folded = self._floors(natural, fold=False), self._floors(natural, fold=True)
        visible, optional = dict(natural), [at for at in natural if self._columns[at].least]
        while True:
            widths = shrunk(visible, floors, room)
            if total_width(widths) <= room:
                return widths, ()
            if not optional:
                break
            left_out = max(optional, key=lambda at: self._columns[at].least)
            optional.remove(left_out)
            del visible[left_out]
        below = [at for at in visible if room < self._columns[at].wide]
        visible = {at: width for at, width in visible.items() if at not in below}
        while True:
            widths = shrunk(shrunk(visible, floors, room), folded, room)
            lower = [at for at in visible if self._columns[at].below]
            if total_width(widths) <= room or not lower:
                return widths, below
            below = sorted([*below, lower[-1]])
            del visible[lower[-1]]

    def _floors(self, natural: Mapping[int, int], *, fold: bool) -> dict[int, int]:
        """Return the least width of each column, if cells are folded or only cut."""
        floors: dict[int, int] = {}
        for at, width in natural.items():
            column = self._columns[at]
            if column.cut:
                floor = column.below or _CUT
            elif fold and not column.right:
                floor = column.below or (_NAME if column.whole else _FOLDED)
            else:
                floor = width
            floors[at] = min(width, max(floor, cell_len(column.title)))
        return floors

    def _fitted(self, console: Console, at: int, cell: Text, width: int) -> Sequence[Text]:
        """Return the lines of a cell."""
        if cell_len(cell.plain) <= width:
            return [cell]
        if self._columns[at].cut and console.is_terminal:
            cell = cell.copy()
            cell.truncate(width, overflow="ellipsis")
            return [cell]
        return list(cell.wrap(console, width, overflow="fold"))

    def _lines(self, cells: Sequence[Sequence[Text]], widths: Mapping[int, int]) -> Iterator[Text]:
        """Put the lines of cells side by side."""
        for number in range(max(map(len, cells))):
            parts: list[Text] = []
            for (at, width), lines in zip(widths.items(), cells, strict=True):
                part = lines[number] if number < len(lines) else Text()
                blank = Text(" " * (width - cell_len(part.plain)))
                parts += [blank, part] if self._columns[at].right else [part, blank]
                parts += [Text(" " * GAP)]
            line = _line(*parts)
            line.rstrip()
            yield line


def _line(*parts: Text) -> Text:
    """Return one line of the screen, which is not folded again."""
    line = Text(no_wrap=True, overflow="ignore")
    for part in parts:
        line.append_text(part)
    return line


def total_width(widths: Mapping[int, int]) -> int:
    """Return the width of a row."""
    return sum(widths.values()) + GAP * (len(widths) - 1)


def shrunk(widths: Mapping[int, int], floors: Mapping[int, int], room: int) -> dict[int, int]:
    """Take away from the widest columns until all fit, or each has its least width."""
    new_widths = dict(widths)
    while total_width(new_widths) > room:
        shrinkable = [at for at, width in new_widths.items() if width > floors[at]]
        if not shrinkable:
            break
        new_widths[max(shrinkable, key=new_widths.__getitem__)] -= 1
    return new_widths


def facts(rows: Iterable[tuple[str, str | Text]]) -> Table:
    """Return a table of names and values, without the names that have no value."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in rows:
        if text:
            table.add_row(name, Text(text) if isinstance(text, str) else text)
    return table
