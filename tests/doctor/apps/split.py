"""The app `clinic` as it was before its queue got partitions, or will be: the two differ in their number."""

from __future__ import annotations

from lockwork import Lockwork

lw = Lockwork(partitions={"mail": 4})


@lw.task(queue="mail")
async def send(number: int) -> None: ...
