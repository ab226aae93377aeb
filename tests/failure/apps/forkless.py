"""Tasks that use something which takes long to make; NOTES is a file to which each making of it appends a line."""

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
