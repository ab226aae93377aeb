"""Decorated functions keep their types for mypy and pyright."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, assert_type

from lockwork import Grant, Lockwork

lw = Lockwork("redis://nowhere")


@lw.lock("report:{day}")
def report(day: str, *, pages: int = 1) -> list[str]:
    return [day] * pages


@lw.lock("report", sticky=True)
async def areport(day: str, /, pages: int = 1) -> bytes:
    return day.encode() * pages


class Shop:
    """Methods stay methods."""

    @lw.lock("order:{order_id}")
    def order(self, order_id: int) -> float:
        return order_id / 2

    @lw.lock("order:{order_id}", wait=1)
    async def aorder(self, order_id: int) -> float:
        return order_id / 2

    @staticmethod
    @lw.lock("static")
    def fixed(value: int) -> int:
        return value


def called() -> None:
    assert_type(report("monday", pages=2), list[str])
    assert_type(Shop().order(7), float)
    assert_type(Shop.fixed(7), int)
    function: Callable[..., list[str]] = report
    function("monday")


async def awaited() -> None:
    assert_type(await areport("monday"), bytes)
    assert_type(await Shop().aorder(7), float)
    function: Callable[[str], Coroutine[Any, Any, bytes]] = areport
    await function("monday")


def handles() -> None:
    with lw.lock("x") as grant:
        assert_type(grant, Grant)
    taken = lw.lock("x").try_acquire()
    assert_type(taken, Grant | None)
    with lw.lock("x").acquire() as again:
        assert_type(again, Grant)
    assert_type(lw.lock("x").export(), str)


async def tasks_handles() -> None:
    async with lw.lock("x") as grant:
        assert_type(grant, Grant)
    async with await lw.lock("x").aacquire() as again:
        assert_type(again, Grant)
    assert_type(await lw.lock("x").aadopt("text"), Grant)
