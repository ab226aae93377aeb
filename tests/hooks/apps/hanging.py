"""Hooks that never end."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from observed import note  # type: ignore[import-not-found]  # beside it, when a worker runs it

from lockwork import Lockwork
from lockwork.hooks import Started

lw = Lockwork()


@lw.hooks.success
async def hangs(event: Any) -> None:
    note("hangs", id=event.id)
    await asyncio.Event().wait()


@lw.hooks.start
def lingers(event: Started) -> None:
    if event.task != "lingered":
        return
    note("lingers", id=event.id)
    try:
        while True:
            time.sleep(0.5)  # cannot be interrupted
    except BaseException as error:
        note("lingered", id=event.id, error=type(error).__name__)
        raise


@lw.task
async def lingered() -> None:
    note("ran")


@lw.task
async def add(a: int, b: int) -> int:
    return a + b
