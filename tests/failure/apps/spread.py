"""A queue with PARTITIONS partitions. Each job appends a line to the file `path`."""

from __future__ import annotations

import asyncio
import os

from lockwork import Lockwork
from notes import note

lw = Lockwork(partitions={"mail": int(os.environ.get("PARTITIONS", "6"))}, patience="300ms")


@lw.task(queue="mail", key="{name}", keep_result=False, retries=0)
async def mark(path: str, name: str, number: int) -> None:
    """Note that the job ran."""
    await asyncio.sleep(0.001)
    note(path, name=name, number=number)
