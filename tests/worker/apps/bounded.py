"""An app that keeps ten dead jobs."""

from lockwork import Lockwork

lw = Lockwork(dead_limit=10)


@lw.task(retries=0)
async def fails(number: int) -> None:
    raise ValueError(number)
