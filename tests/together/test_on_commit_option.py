"""The option `on_commit` of tasks and single jobs, with the transactions of an integration."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from lockwork import ConfigError, Lockwork

Callback = Callable[[], object]


class Database:
    """One database; callbacks wait for `commit`."""

    def __init__(self) -> None:
        self.is_open = False
        self.asked: list[bool | str] = []
        self.callbacks: list[Callback] = []

    def check(self, using: bool | str) -> None:
        """Know one name."""
        if using not in (True, "orders"):
            raise ConfigError(f"no database {using!r}")

    def find(self, using: bool | str) -> Callable[[Callback], object] | None:
        """Return a function that keeps a callback."""
        self.asked.append(using)
        return self.callbacks.append if self.is_open else None

    async def afind(self, using: bool | str) -> Callable[[Callback], Awaitable[object]] | None:
        """Async version of `find`."""
        register = self.find(using)

        async def keep(callback: Callback) -> object:
            return None if register is None else register(callback)

        return None if register is None else keep

    def commit(self) -> None:
        """End the transaction."""
        self.is_open = False
        for callback in self.callbacks:
            callback()


@pytest.fixture
def database(lw: Lockwork) -> Database:
    """A database on whose commit the jobs of all tasks wait."""
    found = Database()
    lw.registry.context.commits.register(found, default=True)
    return found


def queued(lw: Lockwork) -> list[Any]:
    """Return the first argument of each job on the server."""
    return [job.call.args[0] for job in lw.queue().peek() if job.call is not None and job.call.args]


def test_default_lets_jobs_wait_for_the_commit(lw: Lockwork, database: Database) -> None:
    @lw.task
    def ship(order: int) -> None: ...

    ship.enqueue(1)
    assert queued(lw) == [1]
    database.is_open = True
    job = ship.enqueue(2)
    ship.enqueue_many([(3,), (4,)])
    ship.options(on_commit=False).enqueue(5)
    assert queued(lw) == [1, 5]
    database.commit()
    assert queued(lw) == [1, 5, 2, 3, 4]
    assert job.state() == "ready"


def test_option_of_the_task_or_of_a_job_names_the_database(lw: Lockwork, database: Database) -> None:
    @lw.task(on_commit="orders")
    def ship(order: int) -> None: ...

    @lw.task(on_commit=False)
    def pack(order: int) -> None: ...

    database.is_open = True
    ship.enqueue(1)
    pack.enqueue(2)
    pack.options(on_commit=True).enqueue(3)
    assert database.asked == ["orders", True]
    assert queued(lw) == [2]
    with pytest.raises(ConfigError, match="no database 'order'"):
        pack.options(on_commit="order")


async def test_async_enqueue_waits_and_arguments_are_checked_at_once(lw: Lockwork, database: Database) -> None:
    @lw.task
    async def ship(order: int) -> None: ...

    database.is_open = True
    await ship.aenqueue(1)
    await ship.aenqueue_many([(2,), (3,)])
    with pytest.raises(TypeError):
        await ship.aenqueue()  # type: ignore[call-arg]
    assert len(database.callbacks) == 2
    await lw.aclose()


def test_option_needs_an_integration() -> None:
    lw = Lockwork("redis://127.0.0.1:1")

    def ship(order: int) -> None: ...

    with pytest.raises(ConfigError, match="needs an integration that knows the app's database"):
        lw.task(on_commit=True)(ship)
    with pytest.raises(ConfigError, match="on_commit must be True, False or the name of a database, not 1"):
        lw.task(on_commit=1)(ship)  # type: ignore[call-overload]
    task = lw.task(on_commit=False)(ship)
    with pytest.raises(ConfigError, match="needs an integration"):
        task.options(on_commit="default")


def test_callbacks_wait_for_the_commit(lw: Lockwork, database: Database) -> None:
    @lw.task
    def pay(order: int) -> None: ...

    database.is_open = True
    job = pay.options(then=pay.call(2)).enqueue(1)
    assert job.state() == "unknown"
    database.commit()
    assert job.state() == "ready"
    assert pay.options(then=pay.call(2)).enqueue(3).state() == "ready", "without a transaction"


async def test_callbacks_of_async_enqueues_wait_for_the_commit(own_url: str) -> None:
    async with Lockwork(own_url) as alw:
        database = Database()
        alw.registry.context.commits.register(database, default=True)

        @alw.task
        async def pay(order: int) -> None: ...

        database.is_open = True
        jobs = [await pay.options(then=pay.call(2)).aenqueue(1)]
        jobs += await pay.options(then=pay.call(2)).aenqueue_many([(3,), (4,)])
        assert [await job.astate() for job in jobs] == ["unknown"] * 3
        for callback in database.callbacks:
            sent = callback()
            assert isinstance(sent, Awaitable)
            await sent
        assert [await job.astate() for job in jobs] == ["ready"] * 3
