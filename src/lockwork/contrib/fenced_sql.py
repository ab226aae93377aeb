"""Fenced writes to SQL tables: a row stores the fence of its last write, and refuses lower ones."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, Literal, Protocol

from msgspec import Struct

from lockwork.errors import ConfigError, LockworkError, NoSuchRow, StaleFence
from lockwork.locks import fenced_register
from lockwork.locks.grant import Grant


class Executes(Protocol):
    """Runs one statement on a connection."""

    def hit(self, statement: Statement) -> int:
        """Run a writing statement; returns the number of rows, or -1 if the driver does not report it."""
        ...

    def row(self, statement: Statement) -> tuple[Any, ...] | None:
        """Run a query and return its first row."""
        ...


class _Cursor:
    def __init__(self, cursor: Any) -> None:
        self._cursor = cursor

    def hit(self, statement: Statement) -> int:
        self._cursor.execute(statement.text, statement.parameters)
        return int(self._cursor.rowcount)

    def row(self, statement: Statement) -> tuple[Any, ...] | None:
        self._cursor.execute(statement.text, statement.parameters)
        record = self._cursor.fetchone()
        return None if record is None else tuple(record.values() if isinstance(record, dict) else record)


class _SQLAlchemy:
    def __init__(self, connection: Any) -> None:
        # a caller that passes a SQLAlchemy connection has imported it
        self._connection = connection
        self._text = import_module("sqlalchemy").text

    def hit(self, statement: Statement) -> int:
        return int(self._connection.execute(self._text(statement.text), statement.parameters).rowcount)

    def row(self, statement: Statement) -> tuple[Any, ...] | None:
        record = self._connection.execute(self._text(statement.text), statement.parameters).first()
        return None if record is None else tuple(record)


def is_sqlalchemy(target: object) -> bool:
    """Return True for a connection or session of SQLAlchemy, or of a derived class."""
    return any(kind.__module__.partition(".")[0] == "sqlalchemy" for kind in type(target).__mro__)


@contextlib.contextmanager
def executing(target: Any) -> Iterator[Executes]:
    """Yield an executor for `target` that leaves its transaction open; raises ConfigError for other objects."""
    if is_sqlalchemy(target) and hasattr(target, "execute"):
        yield _SQLAlchemy(target)
    elif hasattr(target, "fetchone") and hasattr(target, "execute"):
        yield _Cursor(target)
    elif hasattr(target, "cursor"):
        with contextlib.closing(target.cursor()) as cursor:
            yield _Cursor(cursor)
    else:
        raise ConfigError(f"fenced writes need a DB-API cursor or connection, or one of SQLAlchemy, not {target!r:.80}")


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


class Statement(Struct, frozen=True):
    """One SQL text and its parameters, ready for `execute(text, parameters)`."""

    text: str
    parameters: Sequence[Any] | Mapping[str, Any]


class Statements:
    """Builds the statements for one table; validates all names."""

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
        """Write unless the row has a higher fence; with `strict`, also refuse an equal one."""
        binder = _Parameters(self._style)
        columns = {**self._columns(values), self._fence: fence}
        sets = ", ".join(f"{name} = {binder.mark(value)}" for name, value in columns.items())
        row = f"{self._key} = {binder.mark(key)}"
        # <= and not <: a holder may write several times under one fence
        allowed = f"COALESCE({self._fence}, 0) {'<' if strict else '<='} {binder.mark(fence)}"
        return binder.statement(f"UPDATE {self._table} SET {sets} WHERE {row} AND {allowed}")  # noqa: S608 - all quoted

    def insert(self, key: object, values: Mapping[str, object]) -> Statement:
        """Insert the row with fence 0 if it is missing, so that the update finds it; a duplicate is not an error.

        On PostgreSQL an error would abort the caller's transaction. The number of inserted rows is not used: on MySQL
        it depends on a setting of the connection.
        """
        binder = _Parameters(self._style)
        columns = {self._key: key, **self._columns(values), self._fence: 0}
        marks = ", ".join(binder.mark(value) for value in columns.values())
        into = f"INSERT INTO {self._table} ({', '.join(columns)}) VALUES ({marks})"  # noqa: S608 - all quoted
        if self._mysql:
            return binder.statement(f"{into} ON DUPLICATE KEY UPDATE {self._key} = {self._key}")
        return binder.statement(f"{into} ON CONFLICT ({self._key}) DO NOTHING")

    def read_fence(self, key: object) -> Statement:
        """The query for the fence of a row."""
        binder = _Parameters(self._style)
        # without the lock, MySQL shows a transaction its initial snapshot
        lock = " FOR UPDATE" if self._mysql else ""
        row = f"{self._key} = {binder.mark(key)}"
        return binder.statement(f"SELECT {self._fence} FROM {self._table} WHERE {row}{lock}")  # noqa: S608 - all quoted

    def _columns(self, values: Mapping[str, object]) -> dict[str, object]:
        columns = {self._quoted(name, "a column's name"): value for name, value in values.items()}
        if self._key in columns or self._fence in columns:
            raise ConfigError("the fenced write sets the key and the fence: remove them from the values")
        return columns

    def _quoted(self, name: object, what: str, parts: int = 1) -> str:
        identifiers = name.split(".") if isinstance(name, str) else []
        if not 1 <= len(identifiers) <= parts or not all(map(_IDENTIFIER.fullmatch, identifiers)):
            raise ConfigError(f"{what} must be letters, digits and underscores, not {name!r:.80}")
        return ".".join(f"{self._quote}{part}{self._quote}" for part in identifiers)


class _Parameters:
    """The parameters of one statement, in the order of its text."""

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


_ROUNDS = 3


class FencedTable:
    """Writes to the rows of one table, which has a unique key and a column of 64-bit integers for the fence.

    Names of tables and columns are quoted, so they are case-sensitive. A row whose fence is NULL accepts any fence.
    `paramstyle` is the driver's (sqlite3.paramstyle, for example); SQLAlchemy needs none.
    """

    def __init__(
        self,
        table: str,
        *,
        key: str = "id",
        fence: str = "fence",
        paramstyle: Paramstyle = "qmark",
        dialect: Dialect = "standard",
    ) -> None:
        self.table: str = table
        self._statements = Statements(table, key, fence, paramstyle, dialect)
        # SQLAlchemy translates named parameters into the driver's style
        self._named = Statements(table, key, fence, "named", dialect)
        self._mysql = dialect == "mysql"

    def update(
        self, on: Any, key: object, values: Mapping[str, object], fence: Grant | int, *, strict: bool = False
    ) -> None:
        """Set the columns of `values` in one row, unless the row has a higher fence.

        `on` is a DB-API cursor or connection, or one of SQLAlchemy; the caller commits. A fence may write a row more
        than once; with `strict` only once.
        Raises StaleFence, NoSuchRow or ConfigError; then nothing was written.
        """
        self._write(on, key, values, fenced_register.number(fence), strict=strict, insert=False)

    def put(
        self, on: Any, key: object, values: Mapping[str, object], fence: Grant | int, *, strict: bool = False
    ) -> None:
        """Write like `update`, but insert a missing row. Of two concurrent first writes, the higher fence wins."""
        self._write(on, key, values, fenced_register.number(fence), strict=strict, insert=True)

    def update_statement(
        self, key: object, values: Mapping[str, object], fence: Grant | int, *, strict: bool = False
    ) -> Statement:
        """Return only the UPDATE statement, for other drivers: if it changes no row, the write was refused."""
        return self._statements.update(key, values, fenced_register.number(fence), strict=strict)

    def _write(
        self, on: Any, key: object, values: Mapping[str, object], fence: int, *, strict: bool, insert: bool
    ) -> None:
        make = self._named if is_sqlalchemy(on) else self._statements
        update, fence_query = make.update(key, values, fence, strict=strict), make.read_fence(key)
        first = make.insert(key, values) if insert else None
        with executing(on) as database:
            for _ in range(_ROUNDS):
                hits = database.hit(update)
                if hits > 0:
                    return
                row = database.row(fence_query)
                if row is None:
                    if first is None:
                        raise NoSuchRow(f"{self.table} has no row {key!r}: insert it first, or use put()")
                    database.hit(first)
                    continue
                stored_fence = 0 if row[0] is None else int(row[0])
                if stored_fence > fence or (strict and stored_fence == fence):
                    raise self._stale(key, fence, stored_fence)
                # MySQL does not count an unchanged row; the SELECT has locked it
                if stored_fence == fence and (self._mysql or hits < 0):
                    return
                # the row appeared or changed between two statements: the caller should retry
        raise LockworkError(
            f"the row {key!r} of {self.table} took no write under fence {fence} although its fence is not higher: "
            "check that the driver counts rows (rowcount), and that the transaction sees other commits"
        )

    def _stale(self, key: object, fence: int, seen: int) -> StaleFence:
        if seen > fence:
            why = f"it was written under {seen}, so this grant has ended"
        else:
            why = "it was written under this fence before, and strict allows one write per fence"
        return StaleFence(f"the row {key!r} of {self.table} refuses fence {fence}: {why}", fence, seen)
