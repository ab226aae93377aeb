"""An app whose workers get into trouble."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from gates import opened
from lockwork import Lockwork

lw = Lockwork()


@lw.task(queue="mail", retries=0)
async def send(number: int) -> None:
    """Fail below 0."""
    if number < 0:
        raise ValueError(number)


@lw.task(queue="mail")
async def hold(began: str, gate: str) -> None:
    """Run until the gate is open."""
    Path(began).touch()
    await opened(gate)


@lw.task(queue="mail")
async def block(gate: str) -> None:
    """Block the event loop again and again, until the gate is open."""
    while not Path(gate).exists():
        time.sleep(2.5)  # noqa: ASYNC251 - that is the mistake
        await asyncio.sleep(0)


@lw.task(queue="other")
async def rest() -> None: ...


split = Lockwork(partitions={"mail": 4})
"""The app before or after a change of its queue's partitions."""
split.task(queue="mail")(send.function)
