"""Rows that a zombie holder cannot overwrite: each carries the fence of its last write, and takes no lower one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lockwork.errors import LockworkError, NoSuchRow, StaleFence
from lockwork.fencing import fences
from lockwork.fencing.executing import executing, is_sqlalchemy
from lockwork.fencing.statements import Dialect, Paramstyle, Statement, Statements
from lockwork.locks.grant import Grant

_ROUNDS = 3


class FencedTable:
    """Writes to the rows of one table, which has a unique key and a column of 64-bit integers for the fence.

    Names of tables and columns are quoted, so they must be written as the database has them. A row whose fence is
    NULL takes any. `paramstyle` is the driver's (sqlite3.paramstyle and so on); SQLAlchemy needs none.
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
        # SQLAlchemy translates named marks into what its driver wants
        self._named = Statements(table, key, fence, "named", dialect)
        self._mysql = dialect == "mysql"

    def update(
        self, on: Any, key: object, values: Mapping[str, object], fence: Grant | int, *, strict: bool = False
    ) -> None:
        """Set the columns of `values` in one row, unless a higher fence has written there before.

        `on` is a DB-API cursor or connection, or one of SQLAlchemy; committing is up to the caller. The same fence may
        write again, because one holder writes as often as it likes; with `strict` only once.
        Raises StaleFence, NoSuchRow or ConfigError; then nothing was written.
        """
        self._write(on, key, values, fences.number(fence), strict=strict, insert=False)

    def put(
        self, on: Any, key: object, values: Mapping[str, object], fence: Grant | int, *, strict: bool = False
    ) -> None:
        """The same, but a missing row is inserted. Two first writes may meet: the higher fence wins."""
        self._write(on, key, values, fences.number(fence), strict=strict, insert=True)

    def update_statement(
        self, key: object, values: Mapping[str, object], fence: Grant | int, *, strict: bool = False
    ) -> Statement:
        """The UPDATE alone, for a driver that is called another way: if it hits no row, the write was refused."""
        return self._statements.update(key, values, fences.number(fence), strict=strict)

    def _write(
        self, on: Any, key: object, values: Mapping[str, object], fence: int, *, strict: bool, insert: bool
    ) -> None:
        make = self._named if is_sqlalchemy(on) else self._statements
        update, look = make.update(key, values, fence, strict=strict), make.look(key)
        first = make.insert(key, values) if insert else None
        with executing(on) as database:
            for _ in range(_ROUNDS):
                hits = database.hit(update)
                if hits > 0:
                    return
                row = database.row(look)
                if row is None:
                    if first is None:
                        raise NoSuchRow(f"{self.table} has no row {key!r}: insert it first, or use put()")
                    database.hit(first)
                    continue
                seen = 0 if row[0] is None else int(row[0])
                if seen > fence or (strict and seen == fence):
                    raise self._stale(key, fence, seen)
                # MySQL does not count a row that has these values already; the look has locked it
                if seen == fence and (self._mysql or hits < 0):
                    return
                # the row came or changed between two statements of ours: once more
        raise LockworkError(
            f"the row {key!r} of {self.table} took no write under fence {fence} and shows no reason: does the driver "
            "count rows (rowcount), and does the transaction see what others commit?"
        )

    def _stale(self, key: object, fence: int, seen: int) -> StaleFence:
        if seen > fence:
            why = f"it was written under {seen}, so this grant is over"
        else:
            why = "it was written under this fence before, and takes one write of each (strict)"
        return StaleFence(f"the row {key!r} of {self.table} refuses fence {fence}: {why}", fence, seen)
