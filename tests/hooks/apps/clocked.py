"""A scheduled task with a dependency."""

from __future__ import annotations

from typing import Annotated

from observed import note  # type: ignore[import-not-found]  # beside it, when a worker runs it

from lockwork import Depends, Lockwork

lw = Lockwork()


def get_name() -> str:
    return "provided"


@lw.task(every="1s")
async def ticks(name: Annotated[str, Depends(get_name)]) -> None:
    note("tick", name=name)
