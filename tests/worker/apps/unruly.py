"""Jobs that damage their process; each attempt appends a line to the file `path`."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from typing import Annotated

from lockwork import Depends, Lockwork, current_job
from notes import note

lw = Lockwork()


def block() -> None:
    while True:
        time.sleep(0.01)


@lw.task(retries=0)
def starts_a_program_that_reads() -> tuple[int, str]:
    command = [sys.executable, "-c", "import sys; print(repr(sys.stdin.read()))"]
    program = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    return program.returncode, program.stdout.decode().strip()


def ended_copies() -> list[int | None]:
    """Return the exit codes of forked copies that are terminated at once, as a pool does after an error."""
    copies = [multiprocessing.get_context("fork").Process(target=time.sleep, args=(600,)) for _ in range(10)]
    for copy in copies:
        copy.start()
        copy.terminate()
    try:
        for copy in copies:
            copy.join(5)
        return [copy.exitcode for copy in copies]
    finally:
        for copy in copies:
            copy.kill()


@lw.task(retries=0)
def ends_its_copies() -> list[int | None]:
    return ended_copies()


@lw.task(retries=0, executor="process")
def ends_copies_of_its_runner() -> list[int | None]:
    return ended_copies()


@lw.task(retries=1, backoff=0)
async def exits(path: str, status: int) -> None:
    note(path)
    os._exit(status)


@lw.task
async def prints(text: str) -> None:
    print(text)


@lw.task(retries=0)
async def finishes_all_the_same(path: str) -> str:
    note(path)
    try:
        await asyncio.sleep(600)
    except asyncio.CancelledError:
        return "finished"
    return "never"


@lw.task(retries=0)
async def fails_when_cancelled(path: str) -> None:
    note(path)
    try:
        await asyncio.sleep(600)
    except asyncio.CancelledError:
        raise ConnectionError("it went away") from None


@lw.task(retries=1)
async def kills_its_supervisor(path: str) -> None:
    note(path)
    os.kill(os.getppid(), signal.SIGKILL)
    await asyncio.sleep(600)


@lw.task
async def blocks_the_loop(path: str) -> None:
    note(path)
    block()


@lw.task
def holds_a_thread(path: str) -> None:
    note(path)
    time.sleep(600)


@lw.task
async def leaves_a_thread() -> None:
    asyncio.get_running_loop().run_in_executor(None, time.sleep, 600)


@lw.task(retries=1)
async def exits_in_the_background(path: str) -> int:
    note(path)
    if current_job().attempt == 1:
        asyncio.get_running_loop().call_soon(sys.exit, 0)
        await asyncio.sleep(600)
    return current_job().attempt


def no_pause(attempt: int) -> float:
    sys.exit(attempt)


@lw.task(retries=1, backoff=no_pause)
async def fails_without_a_pause(path: str) -> None:
    note(path)
    raise ValueError("as always")


class Shy(Exception):
    """Raises an error when its class is read."""

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        raise RuntimeError("do not look")


@lw.task(retries=0)
async def fails_shyly() -> None:
    raise Shy


def cancel_myself() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()


@lw.task(retries=0)
async def cancels_itself_and_goes_on(path: str) -> None:
    note(path)
    cancel_myself()
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.sleep(0)


@lw.task(retries=0)
async def cancels_itself_at_its_end(path: str) -> None:
    note(path)
    cancel_myself()


async def get_lock() -> AsyncIterator[str]:
    try:
        yield "lock"
    finally:
        note(os.environ["CLEANED"], "cleaned up")


@lw.task(retries=0)
def raises_what_cancels(path: str, lock: Annotated[str, Depends(get_lock)]) -> None:
    note(path)
    raise asyncio.CancelledError


@lw.task(retries=0)
async def waits_in_a_group() -> str:
    async with asyncio.TaskGroup() as group:
        await group.create_task(asyncio.sleep(0))
    return "waited"
