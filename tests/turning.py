"""Let a loop turn, and cancel what runs in it."""

from __future__ import annotations

import asyncio
from typing import Any


async def turns(count: int) -> None:
    """Let the loop turn that often."""
    for _ in range(count):
        await asyncio.sleep(0)


async def cancelled(task: asyncio.Task[Any]) -> bool:
    """Cancel a task and say whether that ended it; it may have finished just before."""
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        return True
    return False
