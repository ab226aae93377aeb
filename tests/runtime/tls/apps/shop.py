"""The task of the worker that connects with TLS."""

from __future__ import annotations

from lockwork import Lockwork

lw = Lockwork()


@lw.task
async def add(a: int, b: int) -> int:
    return a + b
