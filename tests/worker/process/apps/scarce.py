"""An app on a system that refuses one process, when the file SCARCE_GATE exists."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from lockwork import Lockwork
from lockwork.worker.execution import runner_handle
from lockwork.worker.execution.runner_handle import RunnerHandle, RunnerOwner, SpawnSpec

lw = Lockwork()
_start = runner_handle.start
_refused: list[SpawnSpec] = []


async def start(spec: SpawnSpec, owner: RunnerOwner) -> RunnerHandle:
    if not _refused:
        while not Path(os.environ["SCARCE_GATE"]).exists():
            await asyncio.sleep(0.01)
        _refused.append(spec)
        raise BlockingIOError(11, "Resource temporarily unavailable")
    return await _start(spec, owner)


runner_handle.start = start


@lw.task(executor="process")
def double(number: int) -> int:
    return 2 * number
