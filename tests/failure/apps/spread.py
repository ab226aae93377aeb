"""A queue with PARTITIONS partitions. Each job appends a line to the file `path`."""

from __future__ import annotations

import asyncio
import json
import os

from lockwork import Lockwork, current_job

lw = Lockwork(partitions={"mail": int(os.environ.get("PARTITIONS", "6"))}, patience="300ms")


@lw.task(queue="mail", key="{name}", keep_result=False, retries=0)
async def mark(path: str, name: str, number: int) -> None:
    """Note that the job ran."""
    await asyncio.sleep(0.001)
    line = {"event": "ran", "id": current_job().id, "queue": current_job().queue, "name": name, "number": number}
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, json.dumps(line).encode() + b"\n")
    finally:
        os.close(file)
