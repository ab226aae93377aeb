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


remote = lw.remote_task("other.task", queue="mail")
typed = lw.remote_task("other.task", returns=int)


async def by_name() -> None:
    assert_type(remote.enqueue(1, subject="hi"), Job[Any])
    assert_type(await typed.aenqueue(1), Job[int])
    assert_type(typed.options(delay="1m", queue="urgent").enqueue(), Job[int])
    assert_type(typed.enqueue_many([(1,), (2,)]), list[Job[int]])
    assert_type(await typed.aenqueue_many([(1, "a"), (2, "b")]), list[Job[int]])
    assert_type(typed.map([1, 2]), list[int])
    assert_type(typed.job("id").result(), int)
    assert_type(await typed.job("id"), int)
    assert_type(typed.on_commit(None).enqueue(1), Job[int])
    lw.chain(one.call(1), typed, remote)
    lw.chain(await typed.acall(1), lambda number: one.call(number))


def gathered(jobs: list[Job[str]], *, maybe: bool) -> None:
    assert_type(lw.gather(jobs), list[str])
    assert_type(lw.gather(one.enqueue_many([(1,)]), timeout="1m", progress=True), list[str])
    assert_type(lw.gather(jobs, return_exceptions=False), list[str])
    assert_type(lw.gather(jobs, return_exceptions=maybe), list[str | Exception])
    assert_type([job.result() for job in lw.completed(jobs)], list[str])
    assert_type(one.map(range(5)), list[str])
    assert_type(two.options(delay="1m").map([1, 2], chunk=10, progress=True), list[bytes])
    assert_type(by_keyword.map([1, None]), list[str])
    assert_type(lengths.map(["a"]), list[int])
    assert_type(one.map([1], return_exceptions=True), list[str | Exception])
    assert_type([row.id for row in lw.jobs(task="one")], list[str])


async def awaited() -> None:
    jobs = await one.aenqueue_many([(1,), (2,)])
    assert_type(await jobs[0], str)
    assert_type(await lw.agather(jobs), list[str])
    assert_type(await lw.agather(jobs, return_exceptions=True), list[str | Exception])
    assert_type([await job async for job in lw.acompleted(jobs)], list[str])
    assert_type(await one.amap([1, 2]), list[str])
    assert_type([row.id async for row in await lw.ajobs()], list[str])
    assert_type(await one.aenqueue_many([(1,), (2,)]), list[Job[str]])
    assert_type(await two.aenqueue_many([(1, "a")]), list[Job[bytes]])
