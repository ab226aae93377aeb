"""Tasks that share one resource per process. Each creation of the resource appends a line to the file NOTES."""

from __future__ import annotations

import os
from typing import Annotated

from lockwork import Depends, Lockwork
from notes import append

lw = Lockwork()


def get_pool() -> str:
    append(os.environ["NOTES"], "made")
    return "pool"


@lw.task
async def query(pool: Annotated[str, Depends(get_pool, scope="worker")]) -> int:
    return os.getpid()


@lw.task(executor="process")
def query_alone(pool: Annotated[str, Depends(get_pool, scope="worker")]) -> int:
    return os.getpid()
