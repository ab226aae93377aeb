"""The tasks of the job handle tests; each attempt first appends a line to the file `path`."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any

from lockwork import Lockwork, current_job
from lockwork.backoff import Exponential
from notes import note

lw = Lockwork()


@lw.task
async def add(a: int, b: int = 1) -> int:
    return a + b


@lw.task(retries=2, backoff="10ms")
async def hold(path: str, seconds: float = 60) -> int:
    note(path, "ran")
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        note(path, "cancelled")
        raise
    return current_job().attempt


@lw.task(retries=2, backoff="10ms")
def hold_in_a_thread(path: str) -> None:
    note(path, "ran")
    try:
        while True:
            time.sleep(0.005)
    finally:
        note(path, "interrupted", cancelled=current_job().cancelled)


@lw.task(retries=2, backoff="10ms")
async def stubborn(path: str) -> str:
    note(path, "ran")
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        return "finished all the same"
    return "never"


@lw.task(retries=0)
async def report(path: str, gate: str, count: int) -> str:
    note(path, "ran")
    for number in range(count):
        await current_job().aprogress({"done": number})
        while not Path(f"{gate}{number}").exists():
            await asyncio.sleep(0.005)
    return "done"


@lw.task(retries=3, backoff="10ms")
async def steps(path: str, gate: str) -> list[Any]:
    """Run three steps; the process may die between two steps."""
    job = current_job()
    done = job.checkpoints
    for number in range(3):
        name = f"step{number}"
        if name in done:
            continue
        note(path, name)
        await job.acheckpoint(name, {"attempt": job.attempt})
        note(path, "checked", step=name)
        while number == 1 and job.attempt == 1 and not Path(gate).exists():
            await asyncio.sleep(0.005)
    return [job.attempt, job.checkpoints]


@lw.task(retries=3, backoff="10ms")
def steps_in_a_thread(path: str) -> list[Any]:
    job = current_job()
    if "one" not in job.checkpoints:
        note(path, "one")
        job.checkpoint("one", 1)
        job.progress("half")
        raise ValueError("between the steps")
    job.checkpoint("two", 2)
    return [job.attempt, job.checkpoints]


@lw.task(retries=1, backoff="10ms")
async def snoozes(path: str, times: int) -> int:
    note(path, "ran", at=time.time())
    if Path(path).read_text().count("\n") <= times:
        current_job().snooze("20ms")
    return current_job().attempt


@lw.task(retries=2, backoff=60)
def asks_again(path: str) -> int:
    note(path, "ran")
    try:
        if current_job().attempt < 3:
            current_job().retry("10ms")
    except Exception:  # noqa: BLE001 - a job that catches all exceptions keeps no wish
        return -1
    return current_job().attempt


@lw.task(retries=5, backoff="10ms", retry_on=(ConnectionError, TimeoutError), give_up_on=ConnectionRefusedError)
async def picky(path: str, what: str) -> None:
    note(path, "ran")
    kinds = {"reset": ConnectionResetError, "refused": ConnectionRefusedError, "value": ValueError}
    errors = [kinds[kind]("no") for kind in what.split("+")]
    raise errors[0] if len(errors) == 1 else ExceptionGroup("several", errors)


@lw.task(retries=2, backoff=[0.03, "10ms"])
async def paced(path: str) -> None:
    note(path, "ran", at=time.time())
    raise ValueError("no")


@lw.task(retries=2, backoff=lambda attempt: 0.01 * attempt)
async def calculated(path: str) -> None:
    note(path, "ran", at=time.time())
    raise ValueError("no")


def _broken(attempt: int) -> float:
    raise RuntimeError("no pause for you")


@lw.task(retries=1, backoff=_broken)
async def miscalculated(path: str) -> None:
    note(path, "ran", at=time.time())
    raise ValueError("no")


@lw.task(retries=1, backoff=Exponential("10ms", factor=3, longest="1s", jitter=0))
async def grown(path: str) -> None:
    note(path, "ran", at=time.time())
    raise ValueError("no")


@lw.task(retries=0, max_deliveries=3, tags=["poison"])
async def dies(path: str) -> None:
    note(path, "ran")
    os.kill(os.getpid(), 9)


@lw.task(retries=0, max_deliveries=3)
async def fails(path: str) -> None:
    note(path, "ran")
    raise ValueError("no")


@lw.task(retries=1, backoff="10ms")
async def fails_unless(path: str, gate: str) -> str:
    note(path, "ran")
    if not Path(gate).exists():
        raise ValueError("there is no gate")
    return "came through"


@lw.task
async def tags() -> list[str]:
    return list(current_job().tags)


@lw.task(key="{customer}", group="{customer}", group_concurrency=1)
async def bill(customer: str, number: int) -> int:
    return number


@lw.task(unique="{customer}", unique_until="start")
async def remind(customer: str) -> str:
    return current_job().id


@lw.task(retries=3, executor="process")
def alone(path: str) -> None:
    note(path, "ran")
    raise ValueError("no")
