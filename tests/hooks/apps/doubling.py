"""A hook that enqueues the job again, which the tests of failing hooks must detect."""

from __future__ import annotations

from observed import note  # type: ignore[import-not-found]  # beside it, when a worker runs it

from lockwork import Lockwork
from lockwork.hooks import Succeeded

lw = Lockwork()


@lw.hooks.success
async def again(event: Succeeded) -> None:
    if event.result == 0:
        await once.aenqueue(1)


@lw.task
async def once(number: int) -> int:
    note("ran", number=number)
    return number
