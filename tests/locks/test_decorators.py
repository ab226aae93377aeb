"""Locks as decorators of functions of every kind."""

from __future__ import annotations

import asyncio
import functools
import inspect
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis

from lockwork import ConfigError, LockLost, LockTimeout, Lockwork
from lockwork.errors import BlockingCallError


def test_function_runs_while_the_lock_is_held(lw: Lockwork) -> None:
    @lw.lock("report")
    def report(day: str, *, pages: int = 1) -> list[str]:
        """Make a report."""
        assert lw.lock("report").held()
        return [day] * pages

    assert report("monday", pages=2) == ["monday", "monday"]
    assert not lw.lock("report").locked()
    assert (report.__name__, report.__doc__) == ("report", "Make a report.")
    assert str(inspect.signature(report)) == "(day: 'str', *, pages: 'int' = 1) -> 'list[str]'"


async def test_coroutine_runs_while_the_lock_is_held(alw: Lockwork) -> None:
    @alw.lock("report")
    async def report(day: str) -> str:
        await asyncio.sleep(0)
        assert alw.lock("report").held()
        return day

    assert inspect.iscoroutinefunction(report)
    assert await report("monday") == "monday"
    assert not await alw.lock("report").alocked()


async def test_calls_take_turns(alw: Lockwork) -> None:
    inside = most = 0

    @alw.lock("x")
    async def turn() -> None:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        await asyncio.sleep(0.001)
        inside -= 1

    await asyncio.gather(*(turn() for _ in range(20)))
    assert most == 1


def test_threads_take_turns(lw: Lockwork) -> None:
    inside: list[int] = []

    @lw.lock("x")
    def turn(number: int) -> int:
        inside.append(number)
        threading.Event().wait(0.002)
        count = len(inside)
        inside.remove(number)
        return count

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(turn, range(30))) == {1}


def test_error_of_a_decorated_function_releases_the_lock(lw: Lockwork) -> None:
    @lw.lock("x")
    def fail() -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        fail()
    assert not lw.lock("x").locked()


def test_decorated_call_uses_the_wait_of_its_handle(lw: Lockwork, url: str) -> None:
    @lw.lock("x", wait=0)
    def now_or_never() -> int:
        return 1

    with Lockwork(url) as other, other.lock("x"), pytest.raises(LockTimeout):
        now_or_never()
    assert now_or_never() == 1


def test_recursive_function_reenters_its_lock(lw: Lockwork) -> None:
    @lw.lock("x")
    def factorial(number: int) -> int:
        return number * factorial(number - 1) if number else 1

    assert factorial(5) == 120
    assert not lw.lock("x").locked()


def test_holder_is_notified_of_lost_lock(lw: Lockwork, admin: redis.Redis) -> None:
    @lw.lock("x")
    def lose() -> None:
        admin.delete("lw:{lock:x}")

    with pytest.raises(LockLost):
        lose()


def test_generators_are_refused(lw: Lockwork) -> None:
    with pytest.raises(ConfigError, match="is a generator"):

        @lw.lock("x")
        def numbers() -> Iterator[int]:
            yield 1

    with pytest.raises(ConfigError, match="is a generator"):

        @lw.lock("x")
        async def anumbers() -> AsyncIterator[int]:
            yield 1


def test_decorators_refuse_objects_that_cannot_be_called(lw: Lockwork) -> None:
    with pytest.raises(ConfigError, match="decorates functions"):
        lw.lock("x")(7)  # type: ignore[call-overload]


async def test_object_with_async_call_holds_the_lock_or_is_refused(alw: Lockwork) -> None:
    """Holding the lock only while the coroutine is created would be wrong."""
    seen: list[bool] = []

    class Report:
        async def __call__(self) -> None:
            seen.append(alw.lock("x").held())

    try:
        decorated: Callable[[], Awaitable[None]] = alw.lock("x")(Report())
    except ConfigError:
        return
    await decorated()
    assert seen == [True]


async def test_partial_of_a_coroutine_function_holds_the_lock(alw: Lockwork) -> None:
    async def report(day: str) -> bool:
        await asyncio.sleep(0)
        return day == "monday" and alw.lock("x").held()

    assert await alw.lock("x")(functools.partial(report, "monday"))()


async def test_plain_function_called_on_the_loop_thread_is_refused(alw: Lockwork) -> None:
    ran = []

    @alw.lock("x")
    def blocking() -> None:
        ran.append(1)

    with pytest.raises(BlockingCallError):
        blocking()
    assert not ran
    await asyncio.to_thread(blocking)
    assert ran == [1]
