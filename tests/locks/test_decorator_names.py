"""The name of a decorator's lock, made of the arguments of each call."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import redis

from indexed import keys_but_indexes
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
    """Run `function` with a lock decorator named `name`; return the names of the locks held meanwhile."""
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
        ("{only}", lambda only, /: only, (4,), {}, "4"),
        ("{named}", lambda *, named: named, (), {"named": 4}, "4"),
    ],
)
def test_template_is_filled_with_the_arguments(
    lw: Lockwork, name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], expected: str
) -> None:
    assert names_of(lw, name, function, *args, **kwargs) == {expected}


def test_template_of_a_method_reads_its_object(lw: Lockwork) -> None:
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


async def test_template_of_an_async_method_reads_its_arguments(alw: Lockwork) -> None:
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
def test_template_with_an_unknown_parameter_is_refused(lw: Lockwork, name: str, text: str) -> None:
    with pytest.raises(ConfigError, match=text):

        @lw.lock(name)
        def handle(order_id: int) -> None: ...


def test_template_on_a_function_without_parameters_is_refused(lw: Lockwork) -> None:
    with pytest.raises(ConfigError, match="it has none"):

        @lw.lock("{order_id}")
        def handle() -> None: ...


@pytest.mark.parametrize("name", ["{", "}", "a{b", "a}b", "{}", "{0}", "{a b}", "{a-b}", "{a{b}}"])
def test_strings_that_are_not_templates(lw: Lockwork, name: str) -> None:
    with pytest.raises(ConfigError):

        @lw.lock(name)
        def handle(a: int, b: int) -> None: ...


@pytest.mark.parametrize("value", ["", "{x}", "a b,c;d", "a\nb" * 100, "x" * 300])
def test_name_from_any_value_is_valid(lw: Lockwork, value: str) -> None:
    @lw.lock("{name}")
    def handle(name: str) -> bool:
        return lw.lock(name).held()

    assert handle(value)
    assert not lw.runtime.holds


def test_double_braces_are_braces_of_the_name(lw: Lockwork) -> None:
    assert names_of(lw, "{{{order_id}}}", lambda order_id: order_id, 7) == {"%7B7%7D"}


def test_wrong_arguments_are_the_functions_own_error(lw: Lockwork, admin: redis.Redis) -> None:
    @lw.lock("order:{order_id}")
    def handle(order_id: int) -> None: ...

    with pytest.raises(TypeError):
        handle()  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        handle(1, 2)  # type: ignore[call-arg]
    assert not keys_but_indexes(admin)


@pytest.mark.parametrize("sticky", [False, True])
def test_template_used_without_a_function_is_a_name_with_braces(
    lw: Lockwork, other: Lockwork, caplog: pytest.LogCaptureFixture, *, sticky: bool
) -> None:
    name = f"order:{{order_id}}:{sticky}"
    for _ in range(2):
        with lw.lock(name, sticky=sticky):
            assert lw.lock(name).held()
            assert other.lock(name).locked()
    (warning,) = caplog.messages
    assert warning.startswith(f"A lock's name is used as it is, with its braces: {name!r}")


@pytest.mark.parametrize("name", ['{"id": 5}', "{}", "a{b", "}", "{{order_id}}"])
def test_braces_of_data_are_not_warned_of(lw: Lockwork, caplog: pytest.LogCaptureFixture, name: str) -> None:
    with lw.lock(name):
        assert lw.lock(name).held()
    assert not caplog.messages


def test_names_of_a_multilock_are_not_filled(lw: Lockwork) -> None:
    with pytest.raises(ConfigError, match="are not filled from arguments"):

        @lw.multilock("order:1", "order:{order_id}")
        def handle(order_id: int) -> None: ...


def test_sticky_lock_with_a_template_caches_each_name(lw: Lockwork) -> None:
    @lw.lock("user:{user}", sticky=True, tags=["t"])
    def handle(user: int) -> str | None:
        owner = lw.lock(f"user:{user}").owner()
        return None if owner is None else owner.tags[0]

    assert [handle(1), handle(2), handle(1)] == ["t", "t", "t"]
    assert len(lw.runtime.sticky_cache.idle) == 2


def test_minimum_applies_to_each_name_of_a_template(lw: Lockwork) -> None:
    @lw.lock("job:{name}", at_least=30, wait=0)
    def job(name: str) -> str:
        return name

    assert job("a") == "a"
    assert job("b") == "b"
    with pytest.raises(LockTimeout):
        job("a")
