"""Jobs that are enqueued after the commit of an SQLAlchemy transaction, and never after a rollback."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
import redis

from lockwork import ConfigError, Lockwork
from lockwork.errors import JobNotReplicated, NotEnqueued
from lockwork.tasks.task import Task
from proxy import Proxy

sqlalchemy = pytest.importorskip("sqlalchemy", reason="SQLAlchemy is not installed")
orm = pytest.importorskip("sqlalchemy.orm")

Ship = Task[[int], None, None]
INSERT = sqlalchemy.text("INSERT INTO orders (state) VALUES ('new')")


@pytest.fixture
def engine() -> Iterator[Any]:
    """An in-memory database with working savepoints."""
    made = sqlalchemy.create_engine("sqlite://", poolclass=sqlalchemy.pool.StaticPool)
    sqlalchemy.event.listen(made, "connect", lambda connection, _: setattr(connection, "isolation_level", None))
    sqlalchemy.event.listen(made, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
    with made.begin() as connection:
        connection.execute(sqlalchemy.text("CREATE TABLE orders (id INTEGER PRIMARY KEY, state TEXT NOT NULL)"))
    yield made
    made.dispose()


@pytest.fixture(params=["session", "connection"])
def opened(request: pytest.FixtureRequest, engine: Any) -> Callable[[], Any]:
    """Opens a session or a connection."""
    return (lambda: orm.Session(engine)) if request.param == "session" else engine.connect


def waiting(lw: Lockwork) -> list[int]:
    """Return the orders in the queue."""
    return [(job.call.args or [0])[0] for job in lw.queue("mail").peek(100)]


def rows(engine: Any) -> int:
    with engine.begin() as connection:
        return int(connection.execute(sqlalchemy.text("SELECT count(*) FROM orders")).scalar())


def test_jobs_are_enqueued_after_the_commit(lw: Lockwork, ship: Ship, engine: Any, opened: Callable[[], Any]) -> None:
    with opened() as work:
        work.execute(INSERT)
        job = ship.on_commit(work).enqueue(1)
        ship.on_commit(work).enqueue_many([(2,), (3,)])
        assert job.state() == "unknown"
        work.commit()
        assert job.state() == "ready"
        assert waiting(lw) == [1, 2, 3]
        work.execute(INSERT)
        ship.on_commit(work).enqueue(4)
        assert waiting(lw) == [1, 2, 3]
        work.commit()
        work.execute(INSERT)
        work.commit()
    assert waiting(lw) == [1, 2, 3, 4], "each job once"
    assert rows(engine) == 3


def test_rollback_drops_the_jobs(lw: Lockwork, ship: Ship, engine: Any, opened: Callable[[], Any]) -> None:
    with opened() as work:
        work.execute(INSERT)
        ship.on_commit(work).enqueue(1)
        work.rollback()
        work.execute(INSERT)
        ship.on_commit(work).enqueue(2)
        work.commit()
        work.execute(INSERT)
        ship.on_commit(work).enqueue(3)
    assert waiting(lw) == [2], "a close without commit is a rollback"
    with opened() as work:
        work.execute(INSERT)
        work.commit()
    assert waiting(lw) == [2]


def test_exception_in_a_transaction_block_drops_the_jobs(lw: Lockwork, ship: Ship, engine: Any) -> None:
    for begin in (lambda: orm.Session(engine).begin(), engine.begin, orm.sessionmaker(engine).begin):
        with suppress(ZeroDivisionError), begin() as work:
            ship.on_commit(getattr(work, "session", work)).enqueue(1)
            work_on = 1 / 0
            assert work_on
        with begin() as work:
            ship.on_commit(getattr(work, "session", work)).enqueue(2)
    assert waiting(lw) == [2, 2, 2]


def test_rollback_to_a_savepoint_drops_its_jobs(lw: Lockwork, ship: Ship, opened: Callable[[], Any]) -> None:
    with opened() as work:
        work.execute(INSERT)
        ship.on_commit(work).enqueue(1)
        with work.begin_nested():
            ship.on_commit(work).enqueue(2)
            with work.begin_nested() as inner:
                ship.on_commit(work).enqueue(3)
                inner.rollback()
            with work.begin_nested():
                ship.on_commit(work).enqueue(4)
        outer = work.begin_nested()
        ship.on_commit(work).enqueue(5)
        with work.begin_nested():
            ship.on_commit(work).enqueue(6)
        outer.rollback()
        ship.on_commit(work).enqueue(7)
        assert waiting(lw) == []
        work.commit()
    assert waiting(lw) == [1, 2, 4, 7]


@pytest.mark.filterwarnings("ignore:nested transaction already deassociated")
def test_end_of_an_outer_savepoint_includes_inner_ones(lw: Lockwork, ship: Ship, opened: Callable[[], Any]) -> None:
    for end, first in (("rollback", 10), ("commit", 20)):
        with opened() as work:
            work.execute(INSERT)
            with work.begin_nested():
                ship.on_commit(work).enqueue(first)
            outer = work.begin_nested()
            ship.on_commit(work).enqueue(first + 1)
            work.begin_nested()
            ship.on_commit(work).enqueue(first + 2)
            getattr(outer, end)()
            ship.on_commit(work).enqueue(first + 3)
            last = work.begin_nested()
            ship.on_commit(work).enqueue(first + 4)
            last.rollback()
            work.commit()
    assert waiting(lw) == [10, 13, 20, 21, 22, 23]


def test_savepoint_older_than_the_first_job(lw: Lockwork, ship: Ship, opened: Callable[[], Any]) -> None:
    """The first job of a connection or session is added inside savepoints."""
    for last, expected in ((True, [1, 2]), (False, [1, 2])):
        with opened() as work:
            work.execute(INSERT)
            outer = work.begin_nested()
            inner = work.begin_nested()
            ship.on_commit(work).enqueue(1)
            inner.commit()
            ship.on_commit(work).enqueue(2)
            outer.commit() if last else outer.rollback()
            work.commit()
        assert waiting(lw) == expected


def test_failed_commit_enqueues_no_job(lw: Lockwork, ship: Ship, engine: Any, opened: Callable[[], Any]) -> None:
    with engine.begin() as connection:
        connection.execute(
            sqlalchemy.text(
                "CREATE TABLE lines (id INTEGER, of INTEGER REFERENCES orders (id) DEFERRABLE INITIALLY DEFERRED)"
            )
        )
    with engine.connect() as connection:
        connection.connection.driver_connection.execute("PRAGMA foreign_keys = ON")
    with opened() as work:
        work.execute(sqlalchemy.text("INSERT INTO lines VALUES (1, 99)"))
        ship.on_commit(work).enqueue(1)
        with pytest.raises(sqlalchemy.exc.IntegrityError):
            work.commit()
        work.rollback()
        engine.raw_connection().close()  # a connection sends no rollback after a commit that failed
        work.execute(INSERT)
        ship.on_commit(work).enqueue(2)
        work.commit()
    assert waiting(lw) == [2]


def test_job_begins_the_transaction_of_a_session(lw: Lockwork, ship: Ship, engine: Any) -> None:
    """Rolled back and closed sessions keep no jobs for their next transaction."""
    with orm.Session(engine) as session:
        for order, end in ((1, session.rollback), (2, session.close)):
            ship.on_commit(session).enqueue(order)
            end()
            session.execute(INSERT)
            session.commit()
        ship.on_commit(session).enqueue(3)
        assert waiting(lw) == []
        session.commit()
    assert waiting(lw) == [3]


def test_connection_without_a_transaction_is_refused(lw: Lockwork, ship: Ship, engine: Any) -> None:
    with engine.connect() as connection:
        with pytest.raises(ConfigError, match="this connection has no transaction: begin one"):
            ship.on_commit(connection).enqueue(1)
        with connection.begin():
            ship.on_commit(connection).enqueue(2)
    assert waiting(lw) == [2]


def test_scoped_and_derived_sessions_are_supported(lw: Lockwork, ship: Ship, engine: Any) -> None:
    scoped = orm.scoped_session(orm.sessionmaker(engine))
    ship.on_commit(scoped).enqueue(1)
    scoped.execute(INSERT)
    scoped.commit()
    scoped.remove()

    class Mine(orm.Session):  # type: ignore[misc, name-defined]
        pass

    with Mine(engine) as session:
        session.execute(INSERT)
        ship.on_commit(session).enqueue(2)
        session.commit()
    with orm.Session(engine) as session:
        ship.on_commit(session.connection()).enqueue(3)
        session.commit()
    assert waiting(lw) == [1, 2, 3]


def test_jobs_of_a_flush_wait_for_the_commit(lw: Lockwork, ship: Ship, engine: Any) -> None:
    """A flush has its own transaction inside the session's transaction."""
    with orm.Session(engine) as session:
        sqlalchemy.event.listen(session, "after_flush", lambda *_: ship.on_commit(session).enqueue(1))
        base = orm.declarative_base()

        class Order(base):  # type: ignore[misc, valid-type]
            __tablename__ = "orders"
            id = sqlalchemy.Column(sqlalchemy.Integer, primary_key=True)
            state = sqlalchemy.Column(sqlalchemy.Text)

        session.add(Order(state="new"))
        session.flush()
        assert waiting(lw) == []
        session.add(Order(state="new"))
        session.commit()
    assert waiting(lw) == [1, 1]


def test_options_count_from_the_commit(lw: Lockwork, ship: Ship, engine: Any) -> None:
    with orm.Session(engine) as session:
        session.execute(INSERT)
        late = ship.options(delay="1h", tags=["late"]).on_commit(session).enqueue(1)
        brief = ship.options(expires="1h").on_commit(session).enqueue(2)
        high = ship.options(priority="high").on_commit(session).enqueue(3)
        session.commit()
    assert (late.state(), late.inspect().tags) == ("scheduled", ("late",))
    assert brief.inspect().expires is not None
    assert [job.id for job in lw.queue("mail").peek()] == [high.id, brief.id]


def test_wrong_arguments_are_refused_before_the_commit(lw: Lockwork, ship: Ship, engine: Any) -> None:
    with orm.Session(engine) as session, session.begin():
        with pytest.raises(TypeError):
            ship.on_commit(session).enqueue()  # type: ignore[call-arg]
        for where in (engine, orm.sessionmaker(engine), None, 5, orm.Session, "session"):
            with pytest.raises(ConfigError, match="on_commit takes a session or connection"):
                ship.on_commit(where)
    assert waiting(lw) == []


def test_unreachable_server_raises_after_the_commit(
    admin: redis.Redis, proxy: Proxy, engine: Any, opened: Callable[[], Any]
) -> None:
    with Lockwork(proxy.url, patience=0.05) as lw:

        @lw.task(queue="mail")
        def ship(order: int) -> None: ...

        with opened() as work:
            work.execute(INSERT)
            job = ship.on_commit(work).enqueue(1)
            proxy.refuse(True)
            with pytest.raises(NotEnqueued, match="the transaction is committed, but 1 of its jobs") as caught:
                work.commit()
            assert caught.value.ids == (job.id,)
        proxy.refuse(False)
        assert rows(engine) == 1
        with opened() as work:
            work.execute(INSERT)
            ship.on_commit(work).enqueue(2)
            work.commit()
        assert waiting(lw) == [2]


def test_too_few_replicas_are_reported_after_all_enqueues(lw: Lockwork, ship: Ship, engine: Any) -> None:
    with orm.Session(engine) as session:
        session.execute(INSERT)
        first = ship.options(replicas=2).on_commit(session).enqueue(1)
        ship.on_commit(session).enqueue(2)
        with pytest.raises(JobNotReplicated) as caught:
            session.commit()
    assert caught.value.ids == (first.id,)
    assert waiting(lw) == [1, 2]


def test_unique_name_is_checked_at_the_commit(lw: Lockwork, engine: Any) -> None:
    """The job of the transaction is not enqueued if another job has its name then."""

    @lw.task(queue="mail", unique="order:{order}")
    def ship(order: int) -> None: ...

    first = ship.enqueue(1)
    with orm.Session(engine) as session:
        session.execute(INSERT)
        met = ship.on_commit(session).enqueue(1)
        ship.on_commit(session).enqueue(2)
        session.commit()
    assert lw.queue("mail").status().enqueued == 2
    assert (first.state(), met.state()) == ("ready", "unknown")
    with pytest.raises(ConfigError, match="a unique job cannot wait for replicas"):
        ship.options(replicas=1)


def test_callbacks_are_enqueued_with_their_job(lw: Lockwork, ship: Ship, engine: Any) -> None:
    linked = ship.options(then=ship.call(2), on_error=ship.call(3))
    with orm.Session(engine) as session:
        session.execute(INSERT)
        job = linked.on_commit(session).enqueue(1)
        session.flush()
        savepoint = session.begin_nested()
        linked.on_commit(session).enqueue(4)
        savepoint.rollback()
        jobs = linked.on_commit(session).enqueue_many([(5,), (6,)])
        assert lw.queue("mail").status().enqueued == 0
        session.commit()
    assert [each.state() for each in (job, *jobs)] == ["ready"] * 3
    status = lw.queue("mail").status()
    assert (status.enqueued, status.blocked) == (9, 6)
    assert len({each.inspect().flow for each in (job, *jobs)}) == 3
