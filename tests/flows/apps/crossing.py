"""Tasks in several queues, one of them with partitions; each attempt first appends a line to the file `path`."""

from __future__ import annotations

import asyncio
import os

from lockwork import Lockwork, current_job
from notes import note

QUEUES = "home,other,parts"
lw = Lockwork(partitions={"parts": 3})


@lw.task(queue="home")
async def number(n: int) -> int:
    return n


@lw.task(queue="other")
def double(n: int) -> int:
    return 2 * n


@lw.task(queue="parts", key="{n}")
async def keyed(n: int) -> int:
    return n


@lw.task(queue="parts")
async def total(numbers: list[int]) -> int:
    return sum(numbers)


@lw.task(queue="home", retries=50, backoff="10ms", max_deliveries=50)
async def slow(path: str, name: str) -> str:
    note(path, "ran", name=name)
    await asyncio.sleep(0.05)
    note(path, "done", name=name)
    return name


@lw.task(queue="other", retries=50, backoff="10ms", max_deliveries=50)
async def slow_elsewhere(path: str, name: str) -> str:
    note(path, "ran", name=name)
    await asyncio.sleep(0.05)
    note(path, "done", name=name)
    return name


@lw.task(queue="other", retries=50, backoff="10ms", max_deliveries=50)
async def gathered(path: str, name: str, others: list[str | None]) -> str:
    note(path, "ran", name=name, others=others)
    return name


@lw.task(queue="other", retries=0)
async def fails(path: str, name: str) -> str:
    note(path, "ran", name=name)
    raise ValueError(f"{name} does not work")


@lw.task(queue="parts", retries=50, backoff="10ms", max_deliveries=50)
async def undone(path: str, name: str, result: str | int | None) -> None:
    note(path, "undone", name=name, result=result)


@lw.task(queue="other", retries=2, backoff="10ms")
async def dies_once(path: str, name: str) -> str:
    note(path, "ran", name=name)
    if current_job().attempt == 1:
        os.kill(os.getpid(), 9)
    return name


@lw.task(queue="other")
async def sleeps(path: str) -> None:
    note(path, "sleeps")
    await asyncio.sleep(600)
