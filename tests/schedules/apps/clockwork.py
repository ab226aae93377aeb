"""Scheduled tasks; each run appends a line to the file HISTORY."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

from lockwork import Lockwork, current_job

lw = Lockwork()


def note(event: str) -> None:
    """Append a line in one write."""
    line = {"event": event, "id": current_job().id, "pid": os.getpid()}
    file = os.open(os.environ["HISTORY"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, json.dumps(line).encode() + b"\n")
    finally:
        os.close(file)


@lw.task(every="1s", misfire="all", keep_result=False)
async def second() -> None:
    note("second")


@lw.task
async def gated(gate: str) -> None:
    note("gated")
    while not Path(gate).exists():
        await asyncio.sleep(0.01)


@lw.task
async def greet(name: str) -> str:
    note(f"greeted {name}")
    return f"hello {name}"


lw.schedule(greet.call("you"), cron="30 4 1 1 *", tz="Europe/Berlin", name="new-year")
