"""Whatever runs SQL: a DB-API cursor, a DB-API connection, or a connection or session of SQLAlchemy."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from importlib import import_module
from typing import Any, Protocol

from lockwork.errors import ConfigError
from lockwork.fencing.statements import Statement


class Executes(Protocol):
    """Runs one statement; returns how many rows it hit, or its first row."""

    def hit(self, statement: Statement) -> int:
        """Run a statement that writes; -1 when the driver does not tell how many rows it hit."""
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
        found = self._cursor.fetchone()
        return None if found is None else tuple(found.values() if isinstance(found, dict) else found)


class _SQLAlchemy:
    def __init__(self, connection: Any) -> None:
        # who passes its connection has it
        self._connection = connection
        self._text = import_module("sqlalchemy").text

    def hit(self, statement: Statement) -> int:
        return int(self._connection.execute(self._text(statement.text), statement.parameters).rowcount)

    def row(self, statement: Statement) -> tuple[Any, ...] | None:
        found = self._connection.execute(self._text(statement.text), statement.parameters).first()
        return None if found is None else tuple(found)


def is_sqlalchemy(target: object) -> bool:
    """Whether this is a connection or session of SQLAlchemy, or of a class derived from one."""
    return any(kind.__module__.partition(".")[0] == "sqlalchemy" for kind in type(target).__mro__)


@contextlib.contextmanager
def executing(target: Any) -> Iterator[Executes]:
    """Run statements by `target` and leave its transaction as it is; raises ConfigError if it cannot."""
    if is_sqlalchemy(target) and hasattr(target, "execute"):
        yield _SQLAlchemy(target)
    elif hasattr(target, "fetchone") and hasattr(target, "execute"):
        yield _Cursor(target)
    elif hasattr(target, "cursor"):
        with contextlib.closing(target.cursor()) as cursor:
            yield _Cursor(cursor)
    else:
        raise ConfigError(f"fenced writes need a DB-API cursor or connection, or one of SQLAlchemy, not {target!r:.80}")
