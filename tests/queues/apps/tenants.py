"""Tasks with a key or a group; each attempt records its start and its end."""

from __future__ import annotations

import asyncio

from lockwork import Lockwork, current_job
from notes import note

lw = Lockwork()


async def work(path: str, name: str, seconds: float) -> None:
    note(path, "begin", name=name)
    await asyncio.sleep(seconds)
    note(path, "end", name=name)


@lw.task(key="order:{name}", backoff=0.05)
async def in_order(path: str, name: str, seconds: float = 0.002, fails: int = 0) -> None:
    await work(path, name, seconds)
    if current_job().attempt <= fails:
        raise ValueError("not yet")


@lw.task(group="{name}", group_concurrency=2)
async def by_turns(path: str, name: str, seconds: float = 0.002) -> None:
    await work(path, name, seconds)


@lw.task(group="{name}", group_rate="5/s")
async def slowly(path: str, name: str) -> None:
    await work(path, name, 0)
