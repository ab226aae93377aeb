"""A task that runs until its gate opens, in workers that use the clock of the test's server."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from lockwork import Lockwork
from server_steps import obey

obey()
lw = Lockwork()


def note(path: str) -> None:
    with Path(path).open("a") as file:
        file.write("began\n")


@lw.task(queue="steps", retries=0)
async def held(path: str, gate: str) -> str:
    note(path)
    while not Path(gate).exists():
        await asyncio.sleep(0.01)
    return "done"
