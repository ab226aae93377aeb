"""An app without mistakes, with a short patience."""

from __future__ import annotations

import asyncio
from pathlib import Path

from lockwork import Lockwork

lw = Lockwork(patience="300ms")
not_an_app = {"lw": 5}


@lw.task
async def add(a: int, b: int = 1) -> int:
    return a + b


@lw.task(retries=0)
async def gated(started: str, gate: str) -> str:
    """Make the file `started`, then wait for the file `gate`."""
    Path(started).touch()
    while not Path(gate).exists():
        await asyncio.sleep(0.01)
    return "done"
