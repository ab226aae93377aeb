"""The tasks of the worker tests; each attempt first appends a line to the file `path`."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess

from gates import opened, wait_for
from lockwork import Lockwork, current_job
from notes import note

lw = Lockwork()


@lw.task(keep_result=False)
async def mark(path: str, number: int = 0) -> None:
    note(path, "ran", number=number)


@lw.task(queue="a", keep_result=False)
async def mark_a(path: str) -> None:
    note(path, "ran")


@lw.task(queue="b", keep_result=False)
async def mark_b(path: str) -> None:
    note(path, "ran")


@lw.task(queue="b", keep_result=False)
async def padded_b(path: str, padding: str) -> None:
    note(path, "ran")
    await asyncio.sleep(0.01)


@lw.task(queue="a")
async def gated_a(path: str, gate: str) -> None:
    note(path, "ran")
    await opened(gate)
    note(path, "done")


@lw.task(queue="b")
async def gated_b(path: str, gate: str) -> int:
    note(path, "ran")
    await opened(gate)
    return current_job().attempt


@lw.task
async def gated(path: str, gate: str) -> int:
    note(path, "ran")
    await opened(gate)
    note(path, "done")
    return current_job().attempt


@lw.task
def gated_in_a_thread(path: str, gate: str) -> int:
    note(path, "ran")
    wait_for(gate)
    return current_job().attempt


@lw.task
async def brief(path: str) -> None:
    note(path, "ran")
    await asyncio.sleep(0.02)


@lw.task
async def breeds(path: str, generations: int) -> None:
    note(path, "ran", number=generations)
    if generations:
        await breeds.aenqueue(path, generations - 1)


@lw.task(retries=2, backoff=0)
async def fails_twice(path: str) -> None:
    note(path, "ran")
    if current_job().attempt < 3:
        raise ValueError("not yet")


@lw.task(retries=3)
async def kills_its_process_once(path: str) -> None:
    note(path, "ran")
    if current_job().attempt == 1:
        os.kill(os.getpid(), 9)


bounded = Lockwork(dead_limit=10)
"""An app that keeps ten dead jobs."""


@bounded.task(retries=0)
async def fails(number: int) -> None:
    raise ValueError(number)


kept: list[bytes] = []


@lw.task
async def hoards(megabytes: int) -> int:
    kept.append(b"x" * (megabytes << 20))
    return os.getpid()


@lw.task
async def pid() -> int:
    return os.getpid()


@lw.task
async def loop() -> str:
    return type(asyncio.get_running_loop()).__module__


@lw.task
def ends_a_program() -> int:
    """Return the exit status of a program after SIGTERM."""
    with subprocess.Popen(["sleep", "60"]) as program:
        program.terminate()
        return program.wait(10)


@lw.task
def environment(name: str) -> str | None:
    return os.environ.get(name)


if os.environ.get("SHIFT_IGNORES_DEATHS"):
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
