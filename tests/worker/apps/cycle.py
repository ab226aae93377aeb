"""Tasks of a whole worker cycle; each attempt appends a line to the file `path` first."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from gates import opened
from lockwork import Lockwork, current_job
from notes import note

lw = Lockwork()


@lw.task(queue="mail")
def send(path: str) -> int:
    return note(path)


@lw.task(queue="high")
def urgent(path: str) -> int:
    return note(path)


@lw.task(queue="mail", retries=2)
async def held(path: str, gate: str) -> int:
    attempt = note(path)
    await opened(gate)
    return attempt


@lw.task(queue="mail", retries=1)
def releases(path: str) -> int:
    if note(path) == 1:
        current_job().retry("50ms")
    return current_job().attempt


@lw.task(queue="mail", retries=1, backoff=0)
def throttled(path: str, times: int) -> None:
    note(path)
    if Path(path).read_text().count('"ran"') <= times:
        current_job().snooze("10ms")
    raise ValueError("an exception")


@lw.task(queue="mail", retries=2, backoff=["60ms", "120ms"])
def fails(path: str) -> None:
    note(path)
    raise ValueError("out of paper")


@lw.task(queue="mail", retries=5, give_up_on=LookupError)
def gives_up(path: str) -> None:
    note(path)
    raise LookupError("no such order")


@lw.task(queue="mail", retries=1, backoff=0, timeout="100ms")
async def slow(path: str) -> None:
    note(path)
    await asyncio.sleep(60)


@lw.task(queue="mail", retries=5, timeout="100ms", give_up_on=TimeoutError)
async def fails_on_timeout(path: str) -> None:
    note(path)
    await asyncio.sleep(60)


@lw.task(queue="mail", key="user:{user}")
def alone(path: str, user: int) -> None:
    note(path)
    time.sleep(0.01)
    note(path, "done")
