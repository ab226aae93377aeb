"""An app with a slow task, and a schedule that is not due during the tests."""

from __future__ import annotations

import asyncio

from lockwork import Lockwork

lw = Lockwork()


@lw.task(queue="office")
async def write(page: int) -> None:
    await asyncio.sleep(page)


@lw.task(queue="office", cron="0 3 1 1 *")
async def tidy() -> None: ...


@lw.task(queue="office", retries=0)
def charge(card: str) -> None:
    raise ValueError(f"card {card} was refused")
