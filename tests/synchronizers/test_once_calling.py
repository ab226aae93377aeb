"""Calls of a once: directly or as a decorator, with its functions, results and options."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

import pytest
import redis

from lockwork import ConfigError, Lockwork, PayloadTooLarge
from lockwork.errors import BlockingCallError, OnceFailed
from synchronizers.counted import Counted


def test_result_that_cannot_be_stored_fails_the_run(url: str, admin: redis.Redis) -> None:
    with Lockwork(url, max_result=100) as lw:
        with pytest.raises(ConfigError, match="the result cannot be sent as JSON"):
            lw.once("a").run(Counted(object()))
        with pytest.raises(OnceFailed, match="ConfigError: the result cannot"):
            lw.once("a").run(Counted(1))
        with pytest.raises(PayloadTooLarge):
            lw.once("b").run(Counted("x" * 200))
        assert lw.once("b").inspect().state == "failed"


def test_results_match_the_return_annotation(lw: Lockwork) -> None:
    def day() -> date:
        return date(2026, 11, 21)

    assert [lw.once("day").run(day) for _ in range(2)] == [date(2026, 11, 21)] * 2


def test_decorated_function_runs_once_per_name(lw: Lockwork) -> None:
    calls: list[tuple[str, int]] = []

    @lw.once("report:{day}:{user[id]}", every="1d")
    def report(day: str, user: dict[str, int], *, copies: int = 1) -> str:
        calls.append((day, user["id"]))
        return f"{day} {copies}"

    assert report("mon", {"id": 7}, copies=2) == "mon 2"
    assert report(day="mon", user={"id": 7}) == "mon 2"
    assert report("tue", {"id": 7}) == "tue 1"
    assert calls == [("mon", 7), ("tue", 7)]
    assert lw.once("report:mon:7").inspect().state == "done"
    assert lw.once("report:{day}").inspect().state == "idle", "a name with braces"
    with pytest.raises(ConfigError, match="names a parameter that the function does not have"):
        lw.once("report:{dya}")(report)


async def test_decorated_coroutine_function_runs_once_per_name(alw: Lockwork) -> None:
    @alw.once("push:{user}")
    async def push(user: int) -> int:
        return user

    assert [await push(1), await push(user=1), await push(2)] == [1, 1, 2]


def test_wrong_arguments_are_refused(lw: Lockwork) -> None:
    async def make() -> None: ...

    def yields() -> Iterator[int]:
        yield 1

    with pytest.raises(ConfigError, match=r"is a coroutine function: await arun\(\.\.\.\) instead"):
        lw.once("a").run(make)  # type: ignore[unused-coroutine]
    with pytest.raises(ConfigError, match="every must be more than 0"):
        lw.once("a", every=0)
    with pytest.raises(ConfigError, match="wait must be between 0"):
        lw.once("a", wait=-1)
    with pytest.raises(ConfigError, match="a once's name must be text, not 5"):
        lw.once(5)  # type: ignore[arg-type]
    for wrong in (5, "make", yields):
        with pytest.raises(ConfigError, match="runs functions that return their result, not (5|'make'|.*yields)"):
            lw.once("a").run(wrong)  # type: ignore[arg-type]
    assert lw.once("a").inspect().state == "idle"  # nothing began, so nothing has failed in this period
    with pytest.raises(ConfigError, match="decorates functions that return their result"):

        @lw.once("a")
        def numbers() -> Iterator[int]:
            yield 1


async def test_wrong_arguments_are_refused_in_a_coroutine(alw: Lockwork) -> None:
    with pytest.raises(ConfigError, match="runs functions that return their result, not 5"):
        await alw.once("a").arun(5)  # type: ignore[call-overload]
    assert (await alw.once("a").ainspect()).state == "idle"


async def test_sync_call_in_a_loop_is_an_error(alw: Lockwork) -> None:
    with pytest.raises(BlockingCallError):
        alw.once("a").run(Counted())
