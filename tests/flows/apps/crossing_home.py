"""An app of one of the queues in `crossing.py`; it does not know the tasks of the others."""

from __future__ import annotations

from lockwork import Lockwork

lw = Lockwork(partitions={"parts": 3})


@lw.task(queue="home")
async def number(n: int) -> int:
    return n
