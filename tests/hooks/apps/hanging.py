"""Hooks that never end."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from lockwork import Lockwork
from lockwork.hooks import Started
from notes import record

lw = Lockwork()


@lw.hooks.success
async def hangs(event: Any) -> None:
    record("hangs", id=event.id)
    await asyncio.Event().wait()


@lw.hooks.start
def lingers(event: Started) -> None:
    if event.task != "lingered":
        return
    record("lingers", id=event.id)
    try:
        while True:
            time.sleep(0.5)  # cannot be interrupted
    except BaseException as error:
        record("lingered", id=event.id, error=type(error).__name__)
        raise


@lw.task
async def lingered() -> None:
    record("ran")


@lw.task
async def add(a: int, b: int) -> int:
    return a + b
