"""Tasks whose ends and times are known."""

from __future__ import annotations

import asyncio

from lockwork import Lockwork

lw = Lockwork(partitions={"split": 2})


@lw.task(keep_result=False)
async def quick(number: int) -> None:
    pass


@lw.task(keep_result=False)
async def slow(seconds: float) -> None:
    await asyncio.sleep(seconds)


@lw.task(retries=1, backoff=0)
async def fails() -> None:
    raise ValueError("as always")


@lw.task(queue="split", keep_result=False)
def threaded() -> None:
    pass


@lw.task(executor="process")
def apart() -> int:
    return 1
