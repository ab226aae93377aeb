"""Tasks with limits over all workers; each attempt first appends a line to the file `path`."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

from lockwork import Lockwork
from notes import note

lw = Lockwork()
_LIMIT = os.environ.get("NARROW_AT_ONCE", "2")


@lw.task(concurrency=int(_LIMIT) or None, retries=0, aliases=["old.narrow"])
async def narrow(path: str, seconds: float = 0.2) -> None:
    note(path, "ran", at=time.time())
    await asyncio.sleep(seconds)
    note(path, "ended", at=time.time())


@lw.task(rate="5/s", retries=0)
async def slow(path: str) -> None:
    note(path, "ran", at=time.time())


@lw.task(retries=0)
async def free(path: str) -> None:
    note(path, "free", at=time.time())


@lw.task(concurrency=1, retries=0, group="{group}", group_concurrency=2)
async def grouped(path: str, group: str, seconds: float = 0.05) -> None:
    note(path, "ran", at=time.time())
    await asyncio.sleep(seconds)
    note(path, "ended", at=time.time())


@lw.task(concurrency=2, retries=0, group="{group}", group_concurrency=1)
async def paired(path: str, group: str, seconds: float = 0.0) -> None:
    note(path, "ran", at=time.time())
    await asyncio.sleep(seconds)


@lw.task(retries=0, group="{group}")
async def beside(path: str, group: str) -> None:
    note(path, "free", at=time.time())


@lw.task(pause_after="3 failures in 1m", pause_for="1s", retries=0)
async def fragile(path: str, gate: str) -> str:
    note(path, "ran", at=time.time())
    if not Path(gate).exists():
        raise ConnectionError("the service is away")
    return "well"


@lw.task(concurrency=1, max_deliveries=1)
async def dies(path: str) -> None:
    note(path, "ran")
    os.kill(os.getpid(), 9)
