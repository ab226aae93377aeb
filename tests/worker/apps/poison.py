"""Tasks that may kill their process; each attempt appends a line to the file HISTORY."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path

from lockwork import Lockwork, current_job, current_jobs
from notes import record

lw = Lockwork()


def note(event: str) -> None:
    record(event, id=current_job().id, attempt=current_job().attempt)


@lw.task(retries=0)
async def crashes(beside: int = 0) -> None:
    """Kill the process as native code would, on the first attempt, when `beside` other jobs run."""
    note("poison")
    while current_job().attempt == 1 and not _running(beside):
        await asyncio.sleep(0.01)
    os.kill(os.getpid(), signal.SIGSEGV)


def _running(count: int) -> bool:
    lines = Path(os.environ["HISTORY"]).read_text().splitlines()
    return [json.loads(line)["event"] for line in lines].count("innocent") >= count


@lw.task(retries=0)
async def innocent(gate: str = "") -> int:
    """Wait for the end of the process on the first attempt, later for the gate."""
    note("innocent")
    while current_job().attempt == 1 or (gate and not Path(gate).exists()):
        await asyncio.sleep(0.01)
    note("done")
    return current_job().attempt


@lw.task(retries=0, batch=10, linger="10s")
async def together(numbers: list[int]) -> list[int]:
    if current_jobs()[0].attempt == 1:
        os.kill(os.getpid(), signal.SIGSEGV)
    return [len(numbers) for _ in numbers]


@lw.task(retries=2, backoff=0)
async def fails_alone() -> int:
    """Share a crash, then fail alone, then run like any other job."""
    note("innocent")
    while current_job().attempt == 1:
        await asyncio.sleep(0.01)
    if current_job().attempt == 2:
        raise ValueError("an ordinary failure")
    return current_job().attempt


@lw.task(retries=0)
async def breeds() -> None:
    """Share a crash, and enqueue another job in the second run."""
    note("innocent")
    while current_job().attempt == 1:
        await asyncio.sleep(0.01)
    await late.aenqueue()


@lw.task
async def late() -> None:
    note("late")
