"""The name of a decorator's lock, made of the arguments of each call."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import redis

from lockwork import ConfigError, LockTimeout, Lockwork


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
        held_then.update(key.partition("{lock:")[2].rstrip("}") for key, _ in lw.runtime.holds)
        return function(*given, **named)

    decorated: Callable[..., Any] = lw.lock(name)(looking)
    decorated(*args, **kwargs)
    assert not lw.runtime.holds
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
            return self.lw.lock(f"corner:{order_id}").held()

        @classmethod
        @lw.lock("{cls.__name__}")
        def kind(cls) -> bool:
            return lw.lock("Corner").held()

        @staticmethod
        @lw.lock("static:{number}")
        def fixed(number: int) -> bool:
            return lw.lock(f"static:{number}").held()

    assert Corner(lw).order(7)
    assert Corner.kind()
    assert Corner.fixed(1)
    assert not lw.runtime.holds


async def test_a_method_of_a_task(alw: Lockwork) -> None:
    class Corner(Shop):
        @alw.lock("order:{order_id}")
        async def order(self, order_id: int) -> bool:
            return self.lw.lock(f"order:{order_id}").held()

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
def test_strings_that_are_not_templates(lw: Lockwork, name: str) -> None:
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


@pytest.mark.parametrize(
    "method", ["acquire", "try_acquire", "inspect", "locked", "owner", "remaining", "force_release"]
)
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


def test_a_sticky_template(lw: Lockwork) -> None:
    @lw.lock("user:{user}", sticky=True, tags=["t"])
    def handle(user: int) -> str | None:
        owner = lw.lock(f"user:{user}").owner()
        return None if owner is None else owner.tags[0]

    assert [handle(1), handle(2), handle(1)] == ["t", "t", "t"]
    assert len(lw.runtime.sticky_cache.idle) == 2


def test_a_template_with_a_minimum(lw: Lockwork) -> None:
    @lw.lock("job:{name}", at_least=30, wait=0)
    def job(name: str) -> str:
        return name

    assert job("a") == "a"
    assert job("b") == "b"
    with pytest.raises(LockTimeout):
        job("a")
