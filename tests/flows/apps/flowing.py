"""The tasks of the flow tests; each attempt first appends a line to the file `path`."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

from lockwork import Lockwork, current_job
from lockwork.types import JobFailure
from notes import note

lw = Lockwork()


@lw.task
async def number(n: int) -> int:
    return n


@lw.task
def double(n: int) -> int:
    return 2 * n


@lw.task
async def total(numbers: list[int]) -> int:
    return sum(numbers)


@lw.task
async def gathered(*args: Any, **kwargs: Any) -> list[Any]:
    return [args, kwargs]


@lw.task(retries=50, backoff="10ms", max_deliveries=50)
async def noted(path: str, name: str, *others: Any) -> str:
    note(path, "ran", name=name, others=others)
    return name


@lw.task(retries=50, backoff="10ms", max_deliveries=50)
async def slow(path: str, name: str, seconds: float = 0.05) -> str:
    note(path, "ran", name=name)
    await asyncio.sleep(seconds)
    note(path, "done", name=name)
    return name


@lw.task(retries=0)
async def fails(path: str, name: str, *others: Any) -> str:
    note(path, "ran", name=name)
    raise ValueError(f"{name} does not work")


@lw.task(retries=3, backoff="10ms")
async def fails_twice(path: str) -> str:
    note(path, "ran", name="fails_twice")
    if current_job().attempt < 3:
        raise ValueError("not yet")
    return "at last"


@lw.task
async def alert(error: JobFailure, path: str, name: str = "alert") -> str:
    note(path, "ran", name=name, failed=error.id, queue=error.queue, type=error.type, text=error.text)
    return name


@lw.task
async def alert_any(errors: list[JobFailure | None], path: str) -> None:
    note(path, "ran", name="alert", failed=[error and error.id for error in errors])


@lw.task(retries=0)
async def fails_unless(path: str, gate: str) -> str:
    note(path, "ran", name="fails_unless")
    if not Path(gate).exists():
        raise ValueError("there is no gate")
    return "came through"


@lw.task(retries=2, backoff="10ms")
async def dies_once(path: str, name: str) -> str:
    note(path, "ran", name=name)
    if current_job().attempt == 1:
        os.kill(os.getpid(), 9)
    return name


@lw.task(retries=0, max_deliveries=2)
async def dies(path: str) -> None:
    note(path, "ran", name="dies")
    os.kill(os.getpid(), 9)


@lw.task(key="one")
async def one_at_a_time(path: str, name: str) -> str:
    note(path, "ran", name=name)
    return name


@lw.task(keep_result=False)
async def forgets(n: int) -> int:
    return n


@lw.task(queue="elsewhere")
async def elsewhere(n: int) -> int:
    return n
