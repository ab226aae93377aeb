"""Batch tasks, to mypy and pyright: a job has one item, the function takes a list of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, assert_type

from lockwork import Depends, Job, Lockwork
from lockwork.injection import INJECTED

lw = Lockwork("redis://nowhere")


@lw.task(batch=100, linger="50ms")
async def lengths(words: list[str]) -> list[int]:
    return [len(word) for word in words]


@lw.task(batch=100, retries=5, queue="slow")
def halves(numbers: Sequence[int]) -> list[float]:
    return [number / 2 for number in numbers]


@lw.task(batch=10)
async def nothing(pairs: list[tuple[int, str]], db: Annotated[str, Depends(lambda: "db")] = INJECTED) -> None:
    assert_type(db, str)


@lw.task(batch=10)
def nothing_here(pairs: list[tuple[int, str]]) -> None: ...


@lw.task(batch=10)
async def some_fail(numbers: list[int]) -> list[str | Exception]:
    return [str(number) if number else ValueError("zero") for number in numbers]


def enqueued() -> None:
    assert_type(lengths.enqueue("a"), Job[int])
    assert_type(lengths.enqueue("a").result(), int)
    assert_type(lengths.options(delay="1m").enqueue("a"), Job[int])
    assert_type(halves.enqueue(3).result(), float)
    assert_type(nothing.enqueue((1, "a")), Job[None])
    assert_type(nothing_here.enqueue((1, "a")), Job[None])
    assert_type(some_fail.enqueue(1), Job[str])


async def called() -> None:
    assert_type(list(await lengths(["a", "b"])), list[int | Exception])
    assert_type(await nothing([(1, "a")]), None)
