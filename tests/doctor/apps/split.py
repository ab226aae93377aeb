"""The app `clinic` with another number of partitions, as during a change of that number."""

from __future__ import annotations

from lockwork import Lockwork

lw = Lockwork(partitions={"mail": 4})


@lw.task(queue="mail")
async def send(number: int) -> None: ...
