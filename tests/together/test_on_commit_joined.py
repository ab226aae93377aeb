"""Jobs of sessions that join an outer transaction of their connection, as in test suites."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from lockwork import Lockwork
from lockwork.tasks.task import Task

sqlalchemy = pytest.importorskip("sqlalchemy", reason="SQLAlchemy is not installed")
orm = pytest.importorskip("sqlalchemy.orm")

Ship = Task[[int], None, None]
INSERT = sqlalchemy.text("INSERT INTO orders (state) VALUES ('new')")
TABLE = sqlalchemy.text("CREATE TABLE orders (id INTEGER PRIMARY KEY, state TEXT NOT NULL)")

JOINING = [
    pytest.param("create_savepoint", False, id="create_savepoint"),
    pytest.param("create_savepoint", True, id="create_savepoint in a savepoint"),
    pytest.param("conditional_savepoint", False, id="conditional_savepoint"),
    pytest.param("conditional_savepoint", True, id="conditional_savepoint in a savepoint"),
    pytest.param("rollback_only", False, id="rollback_only"),
    pytest.param("rollback_only", True, id="rollback_only in a savepoint"),
]
"""Modes where the commit of a session does not commit its connection."""


def with_savepoints(engine: Any) -> None:
    """Let SQLite begin transactions where SQLAlchemy does, so that savepoints work."""
    sqlalchemy.event.listen(engine, "connect", lambda connection, _: setattr(connection, "isolation_level", None))
    sqlalchemy.event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))


@pytest.fixture
def make_engine() -> Iterator[Callable[[], Any]]:
    """Make databases in memory, each with a table."""
    made = []

    def make() -> Any:
        engine = sqlalchemy.create_engine("sqlite://", poolclass=sqlalchemy.pool.StaticPool)
        made.append(engine)
        with_savepoints(engine)
        with engine.begin() as connection:
            connection.execute(TABLE)
        return engine

    yield make
    for engine in made:
        engine.dispose()


@pytest.fixture
def connection(make_engine: Callable[[], Any]) -> Iterator[Any]:
    """A connection with an outer transaction."""
    with make_engine().connect() as connection:
        connection.begin()
        yield connection


def waiting(lw: Lockwork) -> list[int]:
    """The orders in the queue."""
    return [(job.call.args or [0])[0] for job in lw.queue("mail").peek(100)]


@pytest.mark.parametrize("statement", [True, False], ids=["with a statement", "without a statement"])
@pytest.mark.parametrize(("mode", "nested"), JOINING)
def test_jobs_wait_for_the_outer_transaction(
    lw: Lockwork, ship: Ship, connection: Any, mode: str, *, nested: bool, statement: bool
) -> None:
    savepoint = connection.begin_nested() if nested else None
    with orm.Session(connection, join_transaction_mode=mode) as session:
        for order in (1, 2):
            if statement:
                session.execute(INSERT)
            ship.on_commit(session).enqueue(order)
            session.commit()
            assert waiting(lw) == []
    if savepoint is not None and savepoint.is_active:
        savepoint.commit()
    assert waiting(lw) == []
    connection.commit()
    assert waiting(lw) == [1, 2]
    connection.begin()
    connection.commit()
    assert waiting(lw) == [1, 2], "each once"


@pytest.mark.parametrize("statement", [True, False], ids=["with a statement", "without a statement"])
@pytest.mark.parametrize(("mode", "nested"), JOINING)
def test_jobs_of_a_rolled_back_outer_transaction_are_dropped(
    lw: Lockwork, ship: Ship, connection: Any, mode: str, *, nested: bool, statement: bool
) -> None:
    if nested:
        connection.begin_nested()
    with orm.Session(connection, join_transaction_mode=mode) as session:
        if statement:
            session.execute(INSERT)
        ship.on_commit(session).enqueue(1)
        session.commit()
    connection.rollback()
    connection.begin()
    ship.on_commit(connection).enqueue(2)
    connection.commit()
    assert waiting(lw) == [2]


def test_jobs_are_dropped_if_the_connection_closes_without_commit(
    lw: Lockwork, ship: Ship, make_engine: Callable[[], Any]
) -> None:
    engine = make_engine()
    with engine.connect() as connection:
        connection.begin()
        with orm.Session(connection, join_transaction_mode="create_savepoint") as session:
            session.execute(INSERT)
            ship.on_commit(session).enqueue(1)
            session.commit()
    with orm.Session(engine) as session:
        session.execute(INSERT)
        ship.on_commit(session).enqueue(2)
        session.commit()
    assert waiting(lw) == [2]


def test_rollback_of_an_enclosing_savepoint_drops_jobs(lw: Lockwork, ship: Ship, connection: Any) -> None:
    with orm.Session(connection, join_transaction_mode="create_savepoint") as session:
        session.execute(INSERT)
        ship.on_commit(session).enqueue(1)
        session.commit()
        outer = connection.begin_nested()
        session.execute(INSERT)
        ship.on_commit(session).enqueue(2)
        with session.begin_nested():
            ship.on_commit(session).enqueue(3)
        session.commit()
        outer.rollback()
        session.execute(INSERT)
        ship.on_commit(session).enqueue(4)
        session.rollback()
        session.execute(INSERT)
        ship.on_commit(session).enqueue(5)
        with session.begin_nested() as inner:
            ship.on_commit(session).enqueue(6)
            inner.rollback()
        session.commit()
    assert waiting(lw) == []
    connection.commit()
    assert waiting(lw) == [1, 5]


def test_rollback_of_a_savepoint_older_than_the_first_job_drops_it(lw: Lockwork, ship: Ship, connection: Any) -> None:
    savepoint = connection.begin_nested()
    with orm.Session(connection, join_transaction_mode="create_savepoint") as session:
        session.execute(INSERT)
        ship.on_commit(session).enqueue(1)
        session.commit()
    savepoint.rollback()
    with orm.Session(connection, join_transaction_mode="create_savepoint") as session:
        session.execute(INSERT)
        ship.on_commit(session).enqueue(2)
        session.commit()
    connection.commit()
    assert waiting(lw) == [2]


def test_jobs_of_sessions_and_of_their_connection_keep_their_order(lw: Lockwork, ship: Ship, connection: Any) -> None:
    ship.on_commit(connection).enqueue(1)
    for order in (2, 3):
        with orm.Session(connection, join_transaction_mode="create_savepoint") as session, session.begin():
            session.execute(INSERT)
            ship.on_commit(session).enqueue(order)
    ship.on_commit(connection).enqueue(4)
    connection.commit()
    assert waiting(lw) == [1, 2, 3, 4]


@pytest.mark.parametrize("rolled_back", [None, 0, 1])
def test_jobs_wait_for_every_connection_of_their_session(
    lw: Lockwork, ship: Ship, make_engine: Callable[[], Any], rolled_back: int | None
) -> None:
    with make_engine().connect() as first, make_engine().connect() as second:
        connections = (first, second)
        base = orm.declarative_base()
        classes = [
            type(name, (base,), {"__tablename__": name, "id": sqlalchemy.Column(sqlalchemy.Integer, primary_key=True)})
            for name in ("left", "right")
        ]
        for connection in connections:
            base.metadata.create_all(connection)
            connection.commit()
            connection.begin()
        binds = dict(zip(classes, connections, strict=True))
        with orm.Session(binds=binds, join_transaction_mode="create_savepoint") as session:
            session.add_all([row() for row in classes])
            ship.on_commit(session).enqueue(1)
            session.commit()
        for place, connection in enumerate(connections):
            assert waiting(lw) == []
            connection.rollback() if place == rolled_back else connection.commit()
        assert waiting(lw) == ([1] if rolled_back is None else [])


def test_session_that_owns_its_connection_enqueues_at_its_commit(
    lw: Lockwork, ship: Ship, make_engine: Callable[[], Any]
) -> None:
    engine = make_engine()
    with engine.connect() as connection, orm.Session(connection) as session:
        ship.on_commit(session).enqueue(1)
        session.commit()
        assert waiting(lw) == [1], "the connection has no transaction of its own"
        session.execute(INSERT)
        ship.on_commit(session).enqueue(2)
        session.commit()
        assert waiting(lw) == [1, 2]
    with engine.connect() as connection, orm.Session(connection, join_transaction_mode="control_fully") as session:
        connection.begin()
        session.execute(INSERT)
        ship.on_commit(session).enqueue(3)
        session.commit()
        assert waiting(lw) == [1, 2, 3], "this session commits the outer transaction"


def test_session_that_commits_an_outer_savepoint_enqueues_at_the_commit_of_the_connection(
    lw: Lockwork, ship: Ship, connection: Any
) -> None:
    connection.begin_nested()
    with orm.Session(connection, join_transaction_mode="control_fully") as session:
        session.execute(INSERT)
        ship.on_commit(session).enqueue(1)
        session.commit()
    assert not connection.in_nested_transaction()
    assert waiting(lw) == []
    connection.commit()
    assert waiting(lw) == [1]


def test_session_may_be_gone_before_the_outer_commit(lw: Lockwork, ship: Ship, connection: Any) -> None:
    maker = orm.scoped_session(orm.sessionmaker(connection, join_transaction_mode="create_savepoint"))
    maker.execute(INSERT)
    ship.on_commit(maker).enqueue(1)
    maker.commit()
    maker.remove()
    connection.commit()
    assert waiting(lw) == [1]


@pytest.fixture
async def async_connection() -> AsyncIterator[Any]:
    """An AsyncConnection with an outer transaction."""
    pytest.importorskip("greenlet", reason="greenlet is not installed")
    pytest.importorskip("aiosqlite", reason="aiosqlite is not installed")
    engine = pytest.importorskip("sqlalchemy.ext.asyncio").create_async_engine(
        "sqlite+aiosqlite://", connect_args={"isolation_level": None}
    )
    sqlalchemy.event.listen(engine.sync_engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
    async with engine.connect() as connection:
        await connection.execute(TABLE)
        await connection.commit()
        await connection.begin()
        yield connection
    await engine.dispose()


@pytest.mark.parametrize("commits", [True, False], ids=["commit", "rollback"])
@pytest.mark.parametrize("scoped", [True, False], ids=["scoped", "session"])
async def test_jobs_of_an_asyncio_session_wait_for_the_outer_transaction(
    alw: Lockwork, async_connection: Any, *, commits: bool, scoped: bool
) -> None:
    from sqlalchemy.ext.asyncio import async_scoped_session, async_sessionmaker

    @alw.task(queue="mail")
    async def ship(order: int) -> None: ...

    maker: Any = async_sessionmaker(async_connection, join_transaction_mode="create_savepoint")
    session = async_scoped_session(maker, lambda: 1) if scoped else maker()
    for order in (1, 2):
        await session.execute(INSERT)
        async with session.begin_nested():
            job = ship.on_commit(session).enqueue(order)
        await session.commit()
        assert await job.astate() == "unknown"
    await session.close()
    await (async_connection.commit() if commits else async_connection.rollback())
    assert await job.astate() == ("ready" if commits else "unknown"), "at the end of the outer commit it is there"
    expected = [[1], [2]] if commits else []
    assert [waiting.call.args for waiting in await alw.queue("mail").apeek()] == expected
