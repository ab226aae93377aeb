"""Batch tasks that must be errors to mypy and pyright."""

from __future__ import annotations

from lockwork import Lockwork

lw = Lockwork("redis://nowhere")


@lw.task(batch=100)
async def lengths(words: list[str]) -> list[int]:
    return [len(word) for word in words]


def one(word: str) -> int:
    return len(word)


lw.task(batch=2)(one)  # type: ignore[arg-type]
lw.task(linger=2)  # type: ignore[call-overload]


def enqueued() -> None:
    lengths.enqueue(5)  # type: ignore[arg-type]
    lengths.enqueue(["a"])  # type: ignore[arg-type]
    lengths.enqueue("a", "b")  # type: ignore[call-arg]
    _ = lengths("a")  # type: ignore[arg-type]
