"""The SQL of a fenced write: texts and parameters in the style that a driver wants, identifiers checked and quoted."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from lockwork.errors import ConfigError

Paramstyle = Literal["qmark", "numeric", "named", "format", "pyformat"]
Dialect = Literal["standard", "mysql"]

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
_MARKS: dict[Paramstyle, str] = {
    "qmark": "?",
    "numeric": ":{number}",
    "named": ":p{number}",
    "format": "%s",
    "pyformat": "%(p{number})s",
}
_QUOTES: dict[Dialect, str] = {"standard": '"', "mysql": "`"}


@dataclass(frozen=True, slots=True)
class Statement:
    """One SQL text and its parameters, ready for `execute(text, parameters)`."""

    text: str
    parameters: Sequence[Any] | Mapping[str, Any]


class Statements:
    """Makes the statements for one table; all names have been checked before."""

    def __init__(self, table: str, key: str, fence: str, style: Paramstyle, dialect: Dialect) -> None:
        if style not in _MARKS:
            raise ConfigError(f"paramstyle must be one of {', '.join(_MARKS)}, not {style!r}")
        if dialect not in _QUOTES:
            raise ConfigError(f'dialect must be "standard" (PostgreSQL, SQLite) or "mysql", not {dialect!r}')
        self._style: Paramstyle = style
        self._mysql = dialect == "mysql"
        self._quote = _QUOTES[dialect]
        self._table = self._quoted(table, "a table's name", parts=3)
        self._key = self._quoted(key, "the key's name")
        self._fence = self._quoted(fence, "the fence's name")
        if key == fence:
            raise ConfigError(f"the key and the fence must be two columns, not both {key!r}")

    def update(self, key: object, values: Mapping[str, object], fence: int, *, strict: bool) -> Statement:
        """Write unless a higher fence was here; with `strict`, unless the same one was."""
        taken = _Parameters(self._style)
        columns = {**self._columns(values), self._fence: fence}
        sets = ", ".join(f"{name} = {taken.mark(value)}" for name, value in columns.items())
        row = f"{self._key} = {taken.mark(key)}"
        # <= and not <: the second write of a holder comes under the fence of its first
        allowed = f"COALESCE({self._fence}, 0) {'<' if strict else '<='} {taken.mark(fence)}"
        return taken.statement(f"UPDATE {self._table} SET {sets} WHERE {row} AND {allowed}")  # noqa: S608 - all quoted

    def insert(self, key: object, values: Mapping[str, object]) -> Statement:
        """Add the row with fence 0 if there is none, for the update to find; a duplicate is not an error.

        On PostgreSQL an error would end the caller's transaction. Whether a row was added is not asked: what MySQL
        answers depends on a setting of the connection.
        """
        taken = _Parameters(self._style)
        columns = {self._key: key, **self._columns(values), self._fence: 0}
        marks = ", ".join(taken.mark(value) for value in columns.values())
        into = f"INSERT INTO {self._table} ({', '.join(columns)}) VALUES ({marks})"  # noqa: S608 - all quoted
        if self._mysql:
            return taken.statement(f"{into} ON DUPLICATE KEY UPDATE {self._key} = {self._key}")
        return taken.statement(f"{into} ON CONFLICT ({self._key}) DO NOTHING")

    def look(self, key: object) -> Statement:
        """Read the fence of a row."""
        taken = _Parameters(self._style)
        # MySQL shows a transaction the state of its beginning unless the row is locked
        lock = " FOR UPDATE" if self._mysql else ""
        row = f"{self._key} = {taken.mark(key)}"
        return taken.statement(f"SELECT {self._fence} FROM {self._table} WHERE {row}{lock}")  # noqa: S608 - all quoted

    def _columns(self, values: Mapping[str, object]) -> dict[str, object]:
        columns = {self._quoted(name, "a column's name"): value for name, value in values.items()}
        if self._key in columns or self._fence in columns:
            raise ConfigError("the key and the fence are set by the fenced write itself: leave them out of the values")
        return columns

    def _quoted(self, name: object, what: str, parts: int = 1) -> str:
        found = name.split(".") if isinstance(name, str) else []
        if not 1 <= len(found) <= parts or not all(map(_IDENTIFIER.fullmatch, found)):
            raise ConfigError(f"{what} must be letters, digits and underscores, not {name!r:.80}")
        return ".".join(f"{self._quote}{part}{self._quote}" for part in found)


class _Parameters:
    """The parameters of one statement, marked in the order in which they stand in its text."""

    def __init__(self, style: Paramstyle) -> None:
        self._style: Paramstyle = style
        self._values: list[object] = []

    def mark(self, value: object) -> str:
        self._values.append(value)
        return _MARKS[self._style].format(number=len(self._values))

    def statement(self, text: str) -> Statement:
        if self._style in ("named", "pyformat"):
            return Statement(text, {f"p{number}": value for number, value in enumerate(self._values, 1)})
        return Statement(text, tuple(self._values))
