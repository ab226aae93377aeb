"""An app without mistakes, with a short patience."""

from __future__ import annotations

from pathlib import Path

from gates import opened
from lockwork import Lockwork

lw = Lockwork(patience="300ms")


@lw.task
async def add(a: int, b: int = 1) -> int:
    return a + b


@lw.task(retries=0)
async def gated(started: str, gate: str) -> str:
    """Make the file `started`, then wait for the file `gate`."""
    Path(started).touch()
    await opened(gate)
    return "done"
