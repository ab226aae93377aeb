"""Tasks that share one resource per process. Each creation of the resource appends a line to the file NOTES."""

from __future__ import annotations

import json
import os
from typing import Annotated

from lockwork import Depends, Lockwork

lw = Lockwork()


def get_pool() -> str:
    file = os.open(os.environ["NOTES"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, json.dumps({"event": "made", "pid": os.getpid()}).encode() + b"\n")
    finally:
        os.close(file)
    return "pool"


@lw.task
async def query(pool: Annotated[str, Depends(get_pool, scope="worker")]) -> int:
    return os.getpid()


@lw.task(executor="process")
def query_alone(pool: Annotated[str, Depends(get_pool, scope="worker")]) -> int:
    return os.getpid()
