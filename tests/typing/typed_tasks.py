"""Tasks to mypy and pyright: what `enqueue` takes, each tuple of `enqueue_many` has."""

from __future__ import annotations

from typing import Any, assert_type

from lockwork import Job, Lockwork

lw = Lockwork("redis://nowhere")


@lw.task
async def one(user: int) -> str:
    return str(user)


@lw.task(retries=5)
def two(user: int, name: str = "") -> bytes:
    return name.encode() * user


@lw.task
def by_keyword(user: int | None, *, name: str = "") -> str:
    return name * (user or 0)


@lw.task
def any_number(*numbers: int) -> float:
    return sum(numbers) / 2


@lw.task
def none() -> None: ...


@lw.task
def many(a: int, b: int, c: int, d: int, e: int, f: str) -> None: ...


@lw.task(batch=100)
async def lengths(words: list[str]) -> list[int]:
    return [len(word) for word in words]


def enqueued(rows: list[tuple[Any, ...]]) -> None:
    assert_type(one.enqueue_many((number,) for number in range(5)), list[Job[str]])
    assert_type(two.enqueue_many([(1,), (2,)]), list[Job[bytes]])
    assert_type(two.options(delay="1m").enqueue_many(zip([1, 2], ["a", "b"], strict=True)), list[Job[bytes]])
    assert_type(by_keyword.enqueue_many([(1,), (None,)]), list[Job[str]])
    assert_type(any_number.enqueue_many([(1, 2), (3, 4)]), list[Job[float]])
    assert_type(none.enqueue_many([()] * 3), list[Job[None]])
    assert_type(many.enqueue_many([(1, 2, 3, 4, 5, "6")]), list[Job[None]])
    assert_type(lengths.enqueue_many([("a",), ("b",)]), list[Job[int]])
    assert_type(one.enqueue_many(rows), list[Job[str]])
    assert_type(one.job("id"), Job[str])
    assert_type(lengths.job("id").result(), int)
    assert_type(two.on_commit(None).enqueue_many([(1, "a")]), list[Job[bytes]])


async def awaited() -> None:
    assert_type(await one.aenqueue_many([(1,), (2,)]), list[Job[str]])
    assert_type(await two.aenqueue_many([(1, "a")]), list[Job[bytes]])
