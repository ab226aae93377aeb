"""Calls of tasks that must be errors to mypy and pyright."""

from __future__ import annotations

from lockwork import Lockwork

lw = Lockwork("redis://nowhere")


@lw.task
async def one(user: int) -> str:
    return str(user)


@lw.task
def two(user: int, name: str = "") -> bytes:
    return name.encode() * user


@lw.task
def none() -> None: ...


async def enqueued() -> None:
    one.enqueue_many([("a",)])  # type: ignore[list-item]
    one.enqueue_many([1])  # type: ignore[list-item]
    one.enqueue_many([(1, 2)])  # type: ignore[list-item]
    two.enqueue_many([(1, 2)])  # type: ignore[list-item]
    two.enqueue_many([("a", "b")])  # type: ignore[list-item]
    none.enqueue_many([(1,)])  # type: ignore[list-item]
    one.on_commit(None).enqueue_many([("a",)])  # type: ignore[list-item]
    await one.aenqueue_many([("a",)])  # type: ignore[list-item]
    one.map(["a"])  # type: ignore[list-item]
    await one.amap(["a"])  # type: ignore[list-item]
    lw.gather([1])  # type: ignore[arg-type]
    lw.enqueue(one, 1)  # type: ignore[attr-defined]
    one.enqueue(1).ready()  # type: ignore[attr-defined]
    one.delay(1)  # type: ignore[attr-defined]
    one.apply_async((1,))  # type: ignore[attr-defined]
