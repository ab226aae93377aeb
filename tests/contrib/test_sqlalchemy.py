"""The same through SQLAlchemy's connections and sessions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from lockwork.contrib.fenced_sql import FencedTable
from lockwork.errors import NoSuchRow, StaleFence

sqlalchemy = pytest.importorskip("sqlalchemy", reason="SQLAlchemy is not installed")

ORDERS = FencedTable("orders")


@pytest.fixture
def engine() -> Iterator[Any]:
    made = sqlalchemy.create_engine("sqlite://", poolclass=sqlalchemy.pool.StaticPool)
    with made.begin() as connection:
        connection.execute(sqlalchemy.text("CREATE TABLE orders (id INTEGER PRIMARY KEY, state TEXT, fence BIGINT)"))
    yield made
    made.dispose()


def test_connection_and_session(engine: Any) -> None:
    orm = pytest.importorskip("sqlalchemy.orm")
    with engine.begin() as connection:
        with pytest.raises(NoSuchRow):
            ORDERS.update(connection, 1, {"state": "one"}, 5)
        ORDERS.put(connection, 1, {"state": "one"}, 5)
        ORDERS.update(connection, 1, {"state": "two"}, 5)
    with orm.Session(engine) as session:
        ORDERS.update(session, 1, {"state": "three"}, 7)
        with pytest.raises(StaleFence):
            ORDERS.update(session, 1, {"state": "four"}, 6)
        session.commit()
    with engine.begin() as connection:
        assert connection.execute(sqlalchemy.text("SELECT state, fence FROM orders")).all() == [("three", 7)]
