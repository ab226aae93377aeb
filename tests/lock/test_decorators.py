"""A lock as a decorator: the function runs while it is held, under a name made of its arguments."""

from __future__ import annotations

import asyncio
import functools
import inspect
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest
import redis

from lockwork import BlockingCallError, ConfigError, LockLost, LockTimeout, Lockwork


def held(lw: Lockwork, name: str) -> bool:
    return lw.lock(name).held()


def test_a_function_runs_while_the_lock_is_held(lw: Lockwork) -> None:
    @lw.lock("report")
    def report(day: str, *, pages: int = 1) -> list[str]:
        """Make a report."""
        assert held(lw, "report")
        return [day] * pages

    assert report("monday", pages=2) == ["monday", "monday"]
    assert not lw.lock("report").locked()
    assert (report.__name__, report.__doc__) == ("report", "Make a report.")
    assert str(inspect.signature(report)) == "(day: 'str', *, pages: 'int' = 1) -> 'list[str]'"


async def test_a_coroutine_runs_while_the_lock_is_held(alw: Lockwork) -> None:
    @alw.lock("report")
    async def report(day: str) -> str:
        await asyncio.sleep(0)
        assert held(alw, "report")
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


def test_an_error_of_the_function_releases_and_passes(lw: Lockwork) -> None:
    @lw.lock("x")
    def fail() -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        fail()
    assert not lw.lock("x").locked()


def test_it_waits_as_the_handle_says(lw: Lockwork, url: str) -> None:
    @lw.lock("x", wait=0)
    def now_or_never() -> int:
        return 1

    with Lockwork(url) as other, other.lock("x"), pytest.raises(LockTimeout):
        now_or_never()
    assert now_or_never() == 1


def test_a_function_that_calls_itself(lw: Lockwork) -> None:
    @lw.lock("x")
    def factorial(number: int) -> int:
        return number * factorial(number - 1) if number else 1

    assert factorial(5) == 120
    assert not lw.lock("x").locked()


def test_a_lost_lock_is_told(lw: Lockwork, admin: redis.Redis) -> None:
    @lw.lock("x")
    def lose() -> None:
        admin.delete("lw:{lock:x}")

    with pytest.raises(LockLost):
        lose()


@dataclass
class Order:
    id: int
    lines: list[str]


class Shop:
    def __init__(self, lw: Lockwork) -> None:
        self.lw = lw
        self.name = "corner"


def names_of(lw: Lockwork, name: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> set[str]:
    """The names of the locks that are held while `function` runs, decorated under `name`."""
    held_then: set[str] = set()

    @functools.wraps(function)
    def looking(*given: Any, **named: Any) -> Any:
        held_then.update(key.partition("{lock:")[2].rstrip("}") for key, _ in lw.runtime.grants)
        return function(*given, **named)

    decorated: Callable[..., Any] = lw.lock(name)(looking)
    decorated(*args, **kwargs)
    assert not lw.runtime.grants
    return held_then


@pytest.mark.parametrize(
    ("name", "function", "args", "kwargs", "expected"),
    [
        ("order:{order_id}", lambda order_id: order_id, (7,), {}, "order:7"),
        ("order:{order_id}", lambda order_id: order_id, (), {"order_id": 7}, "order:7"),
        ("order:{order_id}", lambda order_id=3: order_id, (), {}, "order:3"),
        ("{a}-{b}", lambda a, b="x": (a, b), (1,), {}, "1-x"),
        ("{order.id}", lambda order: order, (Order(9, []),), {}, "9"),
        ("{order.lines[1]}", lambda order: order, (Order(9, ["a", "b"]),), {}, "b"),
        ("{number:04d}", lambda number: number, (7,), {}, "0007"),
        ("{text!r}", lambda text: text, ("a",), {}, "'a'"),
        ("{args[0]}", lambda *args: args, ("first", "second"), {}, "first"),
        ("{options[id]}", lambda **options: options, (), {"id": 5}, "5"),
        ("{given}", lambda given, /: given, (4,), {}, "4"),
        ("{named}", lambda *, named: named, (), {"named": 4}, "4"),
    ],
)
def test_a_name_of_arguments(
    lw: Lockwork, name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], expected: str
) -> None:
    assert names_of(lw, name, function, *args, **kwargs) == {expected}


def test_a_method_names_its_object(lw: Lockwork) -> None:
    class Corner(Shop):
        @lw.lock("{self.name}:{order_id}")
        def order(self, order_id: int) -> bool:
            return held(self.lw, f"corner:{order_id}")

        @classmethod
        @lw.lock("{cls.__name__}")
        def kind(cls) -> bool:
            return held(lw, "Corner")

        @staticmethod
        @lw.lock("static:{number}")
        def fixed(number: int) -> bool:
            return held(lw, f"static:{number}")

    assert Corner(lw).order(7)
    assert Corner.kind()
    assert Corner.fixed(1)
    assert not lw.runtime.grants


async def test_a_method_of_a_task(alw: Lockwork) -> None:
    class Corner(Shop):
        @alw.lock("order:{order_id}")
        async def order(self, order_id: int) -> bool:
            return held(self.lw, f"order:{order_id}")

    assert await Corner(alw).order(7)


async def test_different_arguments_do_not_wait_for_each_other(alw: Lockwork) -> None:
    both = asyncio.Event()
    inside = 0

    @alw.lock("order:{order_id}")
    async def handle(order_id: int) -> None:
        nonlocal inside
        inside += 1
        if inside == 2:
            both.set()
        await both.wait()

    await asyncio.wait_for(asyncio.gather(handle(1), handle(2)), 20)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("order:{order}", r"did you mean \{order_id\}"),
        ("order:{oder_id}", r"did you mean \{order_id\}"),
        ("order:{zzz}", "it has order_id"),
    ],
)
def test_a_parameter_that_the_function_lacks(lw: Lockwork, name: str, text: str) -> None:
    with pytest.raises(ConfigError, match=text):

        @lw.lock(name)
        def handle(order_id: int) -> None: ...


def test_a_function_without_parameters(lw: Lockwork) -> None:
    with pytest.raises(ConfigError, match="it has none"):

        @lw.lock("{order_id}")
        def handle() -> None: ...


@pytest.mark.parametrize("name", ["{", "}", "a{b", "a}b", "{}", "{0}", "{a b}", "{a-b}", "{a{b}}"])
def test_what_is_not_a_template(lw: Lockwork, name: str) -> None:
    with pytest.raises(ConfigError):

        @lw.lock(name)
        def handle(a: int, b: int) -> None: ...


@pytest.mark.parametrize("value", ["", "{x}", "a\nb" * 100, "x" * 300])
def test_a_value_that_makes_no_good_name(lw: Lockwork, admin: redis.Redis, value: str) -> None:
    ran = []

    @lw.lock("{name}")
    def handle(name: str) -> None:
        ran.append(name)

    with pytest.raises(ConfigError):
        handle(value)
    assert not ran
    assert not admin.keys()


def test_wrong_arguments_are_the_functions_own_error(lw: Lockwork, admin: redis.Redis) -> None:
    @lw.lock("order:{order_id}")
    def handle(order_id: int) -> None: ...

    with pytest.raises(TypeError):
        handle()  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        handle(1, 2)  # type: ignore[call-arg]
    assert not admin.keys()


@pytest.mark.parametrize("method", ["acquire", "try_acquire", "state", "locked", "owner", "remaining", "force_release"])
def test_a_template_is_no_lock(lw: Lockwork, admin: redis.Redis, method: str) -> None:
    with pytest.raises(ConfigError, match="braces"):
        getattr(lw.lock("order:{order_id}"), method)()
    assert not admin.keys()


def test_a_template_is_no_lock_for_with(lw: Lockwork) -> None:
    with pytest.raises(ConfigError, match="braces"), lw.lock("order:{order_id}", sticky=True):
        pass
    with pytest.raises(ConfigError):
        lw.lock("order:{order_id}").adopt("text")
    assert not lw.lock("order:{order_id}").held()


def test_generators_are_refused(lw: Lockwork) -> None:
    with pytest.raises(ConfigError, match="is a generator"):

        @lw.lock("x")
        def numbers() -> Iterator[int]:
            yield 1

    with pytest.raises(ConfigError, match="is a generator"):

        @lw.lock("x")
        async def anumbers() -> AsyncIterator[int]:
            yield 1


def test_what_cannot_be_called(lw: Lockwork) -> None:
    with pytest.raises(ConfigError, match="decorates functions"):
        lw.lock("x")(7)  # type: ignore[call-overload]


async def test_an_object_whose_call_is_a_coroutine(alw: Lockwork) -> None:
    """It must hold the lock while it runs, or be refused: not hold it only while its coroutine is made."""
    seen: list[bool] = []

    class Report:
        async def __call__(self) -> None:
            seen.append(held(alw, "x"))

    try:
        decorated: Callable[[], Awaitable[None]] = alw.lock("x")(Report())
    except ConfigError:
        return
    await decorated()
    assert seen == [True]


async def test_a_partial_of_a_coroutine_function(alw: Lockwork) -> None:
    async def report(day: str) -> bool:
        await asyncio.sleep(0)
        return day == "monday" and held(alw, "x")

    assert await alw.lock("x")(functools.partial(report, "monday"))()


async def test_a_plain_function_called_on_the_loops_thread(alw: Lockwork) -> None:
    ran = []

    @alw.lock("x")
    def blocking() -> None:
        ran.append(1)

    with pytest.raises(BlockingCallError):
        blocking()
    assert not ran
    await asyncio.to_thread(blocking)
    assert ran == [1]


def test_a_sticky_template(lw: Lockwork) -> None:
    @lw.lock("user:{user}", sticky=True, tags=["t"])
    def handle(user: int) -> str | None:
        owner = lw.lock(f"user:{user}").owner()
        return None if owner is None else owner.tags[0]

    assert [handle(1), handle(2), handle(1)] == ["t", "t", "t"]
    assert len(lw.runtime.keeper.idle) == 2


def test_a_template_with_a_minimum(lw: Lockwork) -> None:
    @lw.lock("job:{name}", at_least=30, wait=0)
    def job(name: str) -> str:
        return name

    assert job("a") == "a"
    assert job("b") == "b"
    with pytest.raises(LockTimeout):
        job("a")
