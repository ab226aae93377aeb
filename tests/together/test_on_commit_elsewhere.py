"""Jobs that wait for other transactions: asyncio SQLAlchemy, Django, and any function that takes a callback."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from cancelling import auntil
from lockwork import Lockwork
from lockwork.tasks.task import Task
from processes import script

Ship = Task[[int], None, None]


def test_on_commit_accepts_functions_that_take_a_callback(lw: Lockwork, ship: Ship) -> None:
    callbacks: list[Callable[[], object]] = []
    ship.on_commit(callbacks.append).enqueue(1)
    ship.on_commit(callbacks.append).enqueue_many([(2,), (3,)])
    assert lw.queue("mail").status().enqueued == 0
    for callback in callbacks:
        assert callback() is None
    assert [job.call.args for job in lw.queue("mail").peek()] == [[1], [2], [3]]


async def test_callback_on_the_event_loop_enqueues_the_job(alw: Lockwork, caplog: pytest.LogCaptureFixture) -> None:
    @alw.task(queue="mail")
    async def ship(order: int) -> None: ...

    callbacks: list[Callable[[], Any]] = []
    job = ship.on_commit(callbacks.append).enqueue(1)
    await callbacks[0]()
    assert await job.astate() == "ready"
    ship.on_commit(callbacks.append).enqueue(2)
    callbacks[1]()  # the result is not awaited
    await auntil(lambda: _ready(alw, 2), "it is enqueued")


async def test_callback_that_fails_to_enqueue_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async with Lockwork("redis://127.0.0.1:1", patience=0) as app:

        @app.task
        async def ship(order: int) -> None: ...

        callbacks: list[Callable[[], Any]] = []
        ship.on_commit(callbacks.append).enqueue(1)
        await asyncio.wait([callbacks[0]()])
        await asyncio.sleep(0)
        assert "the transaction is committed, but 1 of its jobs could not be enqueued" in caplog.text


@pytest.mark.parametrize(("connected", "turns"), [(False, 0), *((True, turns) for turns in range(5))])
def test_jobs_are_enqueued_when_the_loop_ends_after_the_commit(
    lw: Lockwork, ship: Ship, turns: int, *, connected: bool
) -> None:
    """`asyncio.run` cancels pending coroutines, started or not."""
    callbacks: list[Callable[[], object]] = []
    ship.on_commit(callbacks.append).enqueue(1)
    ship.on_commit(callbacks.append).enqueue_many([(2,), (3,)])

    async def main() -> None:
        if connected:
            await lw.queue("mail").astatus()
        for callback in callbacks:
            callback()
        for _ in range(turns):
            await asyncio.sleep(0)

    asyncio.run(main())
    assert sorted((job.call.args or [0])[0] for job in lw.queue("mail").peek()) == [1, 2, 3]
    assert lw.queue("mail").status().enqueued == 3


def test_repeated_callback_does_not_enqueue_an_ended_job(lw: Lockwork, ship: Ship) -> None:
    callbacks: list[Callable[[], object]] = []
    job = ship.on_commit(callbacks.append).enqueue(1)
    callbacks[0]()
    assert job.cancel()
    asyncio.run(_calling(callbacks[0]))  # as after an interrupted call that was applied
    assert job.state() == "cancelled"
    assert lw.queue("mail").status().enqueued == 1


def test_unavailable_server_after_the_commit_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with Lockwork("redis://127.0.0.1:1", patience=0) as app:
        job = app.task(print).on_commit(lambda callback: asyncio.run(_calling(callback))).enqueue(1)
    assert f"1 of its jobs could not be enqueued, from {job.id} on" in caplog.text


async def _calling(callback: Callable[[], object]) -> None:
    callback()


async def _ready(app: Lockwork, count: int) -> bool:
    return (await app.queue("mail").astatus()).ready == count


@pytest.fixture
async def engine() -> AsyncIterator[Any]:
    pytest.importorskip("greenlet", reason="greenlet is not installed")
    pytest.importorskip("aiosqlite", reason="aiosqlite is not installed")
    alchemy = pytest.importorskip("sqlalchemy", reason="SQLAlchemy is not installed")
    made = pytest.importorskip("sqlalchemy.ext.asyncio").create_async_engine("sqlite+aiosqlite://")
    async with made.begin() as connection:
        await connection.execute(alchemy.text("CREATE TABLE orders (id INTEGER PRIMARY KEY, state TEXT)"))
    yield made
    await made.dispose()


@pytest.mark.parametrize("kind", ["session", "connection", "scoped", "sync"])
async def test_asyncio_sessions_and_connections_are_supported(alw: Lockwork, engine: Any, kind: str) -> None:
    from sqlalchemy import text
    from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session, async_sessionmaker

    @alw.task(queue="mail")
    async def ship(order: int) -> None: ...

    scoped = async_scoped_session(async_sessionmaker(engine), asyncio.current_task)
    insert = text("INSERT INTO orders (state) VALUES ('new')")
    opened: Any = {
        "session": lambda: AsyncSession(engine),
        "connection": engine.connect,
        "scoped": scoped,
        "sync": lambda: AsyncSession(engine),
    }[kind]
    async with opened() as work:
        where = {"scoped": scoped, "sync": getattr(work, "sync_session", None)}.get(kind, work)
        await work.execute(insert)
        job = ship.on_commit(where).enqueue(1)
        assert await job.astate() == "unknown"
        await work.commit()
        assert await job.astate() == "ready", "at the end of the commit it is there"
        await work.execute(insert)
        ship.on_commit(where).enqueue(2)
        await work.rollback()
        await work.execute(insert)
        async with work.begin_nested() as inner:
            ship.on_commit(where).enqueue(3)
            await inner.rollback()
        ship.on_commit(where).enqueue(4)
        await work.commit()
    assert [waiting.call.args for waiting in await alw.queue("mail").apeek()] == [[1], [4]]


async def test_blocking_session_on_the_event_loop_is_supported(alw: Lockwork) -> None:
    alchemy = pytest.importorskip("sqlalchemy", reason="SQLAlchemy is not installed")
    from sqlalchemy.orm import Session

    @alw.task(queue="mail")
    async def ship(order: int) -> None: ...

    made = alchemy.create_engine("sqlite://", poolclass=alchemy.pool.StaticPool)
    with Session(made) as session:
        session.execute(alchemy.text("SELECT 1"))
        ship.on_commit(session).enqueue(1)
        session.commit()
    made.dispose()
    await auntil(lambda: _ready(alw, 1), "it is enqueued")


DJANGO = """
import sys
from django.conf import settings
settings.configure(
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": sys.argv[1]}}, INSTALLED_APPS=[]
)
import django
django.setup()
from django.db import connection, transaction
from lockwork import Lockwork

lw = Lockwork()

@lw.task(queue="mail")
def ship(order: int) -> None: ...

on_commit = ship.on_commit(transaction.on_commit)
with lw:
    with transaction.atomic():
        on_commit.enqueue(1)
        try:
            with transaction.atomic():
                on_commit.enqueue(2)
                raise ValueError
        except ValueError:
            pass
        with transaction.atomic():
            on_commit.enqueue(3)
        assert lw.queue("mail").status().enqueued == 0
    try:
        with transaction.atomic():
            on_commit.enqueue(4)
            raise ValueError
    except ValueError:
        pass
    on_commit.enqueue(5)  # without a transaction: at once
    print([job.call.args[0] for job in lw.queue("mail").peek()])
connection.close()
"""


def test_django_transactions_are_supported(url: str, lw: Lockwork, tmp_path: Path) -> None:
    pytest.importorskip("django", reason="Django is not installed")
    with script(DJANGO, tmp_path / "shop.sqlite3", url=url) as process:
        assert process.line() == "[1, 3, 5]"
        assert process.wait() == 0, process.errors
