"""Fenced rows in a real database, and the SQL of other styles."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from lockwork import ConfigError, Lockwork, LockworkError
from lockwork.contrib.fenced_sql import FencedTable, Paramstyle
from lockwork.errors import NoSuchRow, StaleFence

ORDERS = FencedTable("orders")


@pytest.fixture
def shop() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(
            'CREATE TABLE orders (id INTEGER PRIMARY KEY, state TEXT NOT NULL, "select" TEXT, fence BIGINT)'
        )
        connection.execute("INSERT INTO orders (id, state) VALUES (1, 'new')")
        connection.commit()
        yield connection


def row(shop: sqlite3.Connection, key: int = 1) -> Any:
    return shop.execute("SELECT state, fence FROM orders WHERE id = ?", (key,)).fetchone()


def test_row_accepts_the_same_fence_again_and_no_lower_one(lw: Lockwork, shop: sqlite3.Connection) -> None:
    with lw.lock("order:1") as old:
        ORDERS.update(shop, 1, {"state": "one"}, old)
        ORDERS.update(shop, 1, {"state": "two"}, old)
    with lw.lock("order:1") as new:
        ORDERS.update(shop, 1, {"state": "three"}, new)
        with pytest.raises(StaleFence, match="this grant has ended") as refused:
            ORDERS.update(shop, 1, {"state": "four"}, old)
        assert (refused.value.fence, refused.value.seen) == (old.fence, new.fence)
        assert row(shop) == ("three", new.fence)


def test_strict_takes_one_write_of_each_fence(shop: sqlite3.Connection) -> None:
    ORDERS.update(shop, 1, {"state": "one"}, 5, strict=True)
    with pytest.raises(StaleFence, match="strict"):
        ORDERS.update(shop, 1, {"state": "two"}, 5, strict=True)
    ORDERS.update(shop, 1, {"state": "three"}, 6, strict=True)
    assert row(shop) == ("three", 6)


def test_missing_row_differs_from_refused_row(shop: sqlite3.Connection) -> None:
    with pytest.raises(NoSuchRow, match="no row 2"):
        ORDERS.update(shop, 2, {"state": "one"}, 5)
    ORDERS.update(shop, 1, {"state": "one"}, 5)
    with pytest.raises(StaleFence):
        ORDERS.update(shop, 1, {"state": "one"}, 4)


def test_first_write_inserts(shop: sqlite3.Connection) -> None:
    ORDERS.put(shop, 2, {"state": "one"}, 5)
    assert row(shop, 2) == ("one", 5)
    ORDERS.put(shop, 2, {"state": "two"}, 6, strict=True)
    with pytest.raises(StaleFence):
        ORDERS.put(shop, 2, {"state": "three"}, 5)
    ORDERS.put(shop, 3, {"state": "strictly"}, 5, strict=True)
    with pytest.raises(StaleFence):
        ORDERS.put(shop, 3, {"state": "strictly"}, 5, strict=True)
    assert (row(shop, 2), row(shop, 3)) == (("two", 6), ("strictly", 5))


def test_concurrent_insert_by_another_session_is_fenced(shop: sqlite3.Connection) -> None:
    """Two first writes race: the higher fence wins, and the lower one fails."""

    class Meanwhile(_Cursor):
        def execute(self, text: str, parameters: Any = ()) -> Any:
            if text.startswith("INSERT"):
                shop.execute("INSERT INTO orders (id, state, fence) VALUES (2, 'theirs', 6)")
            return super().execute(text, parameters)

    with pytest.raises(StaleFence):
        ORDERS.put(Meanwhile(shop), 2, {"state": "ours"}, 5)
    assert row(shop, 2) == ("theirs", 6)
    shop.execute("DELETE FROM orders WHERE id = 2")
    ORDERS.put(Meanwhile(shop), 2, {"state": "ours"}, 7)
    assert row(shop, 2) == ("ours", 7)


def test_other_errors_of_an_insert_are_seen(shop: sqlite3.Connection) -> None:
    with pytest.raises(sqlite3.IntegrityError, match="NOT NULL"):
        ORDERS.put(shop, 2, {"select": "no state"}, 5)


def test_cursor_is_accepted_and_the_caller_owns_the_transaction(shop: sqlite3.Connection) -> None:
    with closing(shop.cursor()) as cursor:
        ORDERS.update(cursor, 1, {"state": "one"}, 5)
    assert shop.in_transaction
    shop.rollback()
    assert row(shop) == ("new", None)


def test_named_and_quoted(shop: sqlite3.Connection) -> None:
    FencedTable("orders", paramstyle="named").update(shop, 1, {"select": "a'b\"c%s"}, 5)
    assert shop.execute('SELECT "select" FROM orders').fetchone() == ("a'b\"c%s",)


def test_fence_without_new_values_is_stored(shop: sqlite3.Connection) -> None:
    """Before its first step a holder may shut out its predecessors."""
    ORDERS.update(shop, 1, {}, 9)
    assert row(shop) == ("new", 9)


@pytest.mark.parametrize(
    ("style", "marks", "named"),
    [
        ("qmark", ["?", "?", "?", "?"], False),
        ("numeric", [":1", ":2", ":3", ":4"], False),
        ("named", [":p1", ":p2", ":p3", ":p4"], True),
        ("format", ["%s", "%s", "%s", "%s"], False),
        ("pyformat", ["%(p1)s", "%(p2)s", "%(p3)s", "%(p4)s"], True),
    ],
)
def test_styles(style: Paramstyle, marks: list[str], named: bool) -> None:
    made = FencedTable("shop.orders", key="number", fence="f", paramstyle=style).update_statement(
        "A1", {"state": "x"}, 5
    )
    assert made.text == (
        'UPDATE "shop"."orders" SET "state" = {}, "f" = {} WHERE "number" = {} AND COALESCE("f", 0) <= {}'.format(
            *marks
        )
    )
    values = ("x", 5, "A1", 5)
    assert made.parameters == ({f"p{n}": value for n, value in enumerate(values, 1)} if named else values)


def test_strict_text() -> None:
    assert ORDERS.update_statement(1, {}, 5, strict=True).text.endswith('COALESCE("fence", 0) < ?')


class _Cursor:
    """A driver that wraps SQLite's, to imitate other drivers."""

    def __init__(self, shop: sqlite3.Connection) -> None:
        self._cursor = shop.cursor()
        self.rowcount = 0
        self.texts: list[str] = []

    def execute(self, text: str, parameters: Any = ()) -> Any:
        self.texts.append(text)
        self._cursor.execute(text, parameters)
        self.rowcount = self._cursor.rowcount
        return self

    def fetchone(self) -> Any:
        return self._cursor.fetchone()


class _MySQL(_Cursor):
    """A driver that does not count unchanged rows, with MySQL's dialect."""

    def execute(self, text: str, parameters: Any = ()) -> Any:
        before = self._cursor.execute("SELECT * FROM orders ORDER BY id").fetchall()
        translated = text.replace("`", '"').replace(" FOR UPDATE", "").replace("%s", "?")
        translated = translated.replace('ON DUPLICATE KEY UPDATE "id" = "id"', "ON CONFLICT DO NOTHING")
        super().execute(translated, parameters)
        self.texts[-1] = text
        if text.startswith("UPDATE"):
            after = self._cursor.execute("SELECT * FROM orders ORDER BY id").fetchall()
            self.rowcount = int(after != before)
        return self


def test_mysql_does_not_count_a_row_that_did_not_change(shop: sqlite3.Connection) -> None:
    orders = FencedTable("orders", paramstyle="format", dialect="mysql")
    database = _MySQL(shop)
    orders.update(database, 1, {"state": "one"}, 5)
    orders.update(database, 1, {"state": "one"}, 5)
    assert database.texts[-1] == "SELECT `fence` FROM `orders` WHERE `id` = %s FOR UPDATE"
    with pytest.raises(StaleFence):
        orders.update(database, 1, {"state": "one"}, 4)
    orders.put(database, 2, {"state": "first"}, 5, strict=True)
    assert row(shop, 2) == ("first", 5)
    assert any("ON DUPLICATE KEY UPDATE `id` = `id`" in text for text in database.texts)


def test_driver_without_row_counts_is_supported(shop: sqlite3.Connection) -> None:
    class Silent(_Cursor):
        def execute(self, text: str, parameters: Any = ()) -> Any:
            super().execute(text, parameters)
            self.rowcount = -1
            return self

    ORDERS.update(Silent(shop), 1, {"state": "one"}, 5)
    assert row(shop) == ("one", 5)
    with pytest.raises(StaleFence):
        ORDERS.update(Silent(shop), 1, {"state": "two"}, 4)


def test_row_that_no_write_hits_is_an_error(shop: sqlite3.Connection) -> None:
    class Deaf(_Cursor):
        def execute(self, text: str, parameters: Any = ()) -> Any:
            if not text.startswith("UPDATE"):
                return super().execute(text, parameters)
            self.rowcount = 0
            return self

    with pytest.raises(LockworkError, match="rowcount"):
        ORDERS.update(Deaf(shop), 1, {"state": "one"}, 5)


@pytest.mark.parametrize(
    "name", ['orders"; DROP TABLE orders; --', "", "a b", "1a", "a.b.c.d", "a.", "é", None, 7, "x" * 64]
)
def test_names_that_are_no_identifiers(name: Any) -> None:
    with pytest.raises(ConfigError, match="letters, digits and underscores"):
        FencedTable(name)
    with pytest.raises(ConfigError, match="letters, digits and underscores"):
        ORDERS.update_statement(1, {name: 1}, 5)


def test_bad_settings() -> None:
    with pytest.raises(ConfigError, match="paramstyle"):
        FencedTable("orders", paramstyle="dollar")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="dialect"):
        FencedTable("orders", dialect="oracle")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="two columns"):
        FencedTable("orders", key="fence")
    for own in ("id", "fence"):
        with pytest.raises(ConfigError, match="remove them"):
            ORDERS.update_statement(1, {own: 1}, 5)
    with pytest.raises(ConfigError, match="DB-API"):
        ORDERS.update(object(), 1, {"state": "x"}, 5)
    with pytest.raises(ConfigError, match="fence"):
        ORDERS.update_statement(1, {}, 0)
