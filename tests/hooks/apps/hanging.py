"""A hook that never ends."""

from __future__ import annotations

import asyncio
from typing import Any

from observed import note  # type: ignore[import-not-found]  # beside it, when a worker runs it

from lockwork import Lockwork

lw = Lockwork()


@lw.hooks.success
async def hangs(event: Any) -> None:
    note("hangs", id=event.id)
    await asyncio.Event().wait()


@lw.task
async def add(a: int, b: int) -> int:
    return a + b
