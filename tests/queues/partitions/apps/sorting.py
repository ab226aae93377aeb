"""The tasks of the partition tests; each attempt appends lines to the file `path`."""

from __future__ import annotations

import asyncio
import os

from lockwork import Lockwork, current_job
from notes import note

lw = Lockwork(partitions={"mail": 4})


@lw.task(queue="mail", keep_result=False)
async def mark(path: str, number: int = 0) -> None:
    note(path, "ran", number=number)


@lw.task(queue="mail", key="{name}", keep_result=False)
async def in_order(path: str, name: str) -> None:
    note(path, "begin", name=name)
    await asyncio.sleep(0.002)
    note(path, "end", name=name)


@lw.task(queue="mail", group="{name}", group_concurrency=2, keep_result=False)
async def in_groups(path: str, name: str) -> None:
    note(path, "begin", name=name)
    await asyncio.sleep(0.002)
    note(path, "end", name=name)


@lw.task(queue="mail")
async def double(number: int) -> int:
    return 2 * number


@lw.task(queue="mail")
async def total(numbers: list[int]) -> int:
    return sum(numbers)


@lw.task(queue="mail", retries=0)
async def fail(text: str) -> None:
    raise ValueError(text)


@lw.task(queue="mail", batch=10, linger="10ms")
async def squares(numbers: list[int]) -> list[int]:
    return [number * number for number in numbers]


@lw.task(queue="mail", executor="process", key="{number}")
async def apart(number: int) -> list[object]:
    return [current_job().queue, os.getpid()]


@lw.task(queue="other", keep_result=False)
async def elsewhere(path: str) -> None:
    note(path, "ran")


@lw.task(queue="mail", every="1s", keep_result=False)
async def tick() -> None:
    path = os.environ.get("HISTORY")
    if path:
        note(path, "tick")
