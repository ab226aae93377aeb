"""Batch tasks of every kind; each call appends its items and jobs to the file HISTORY."""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated, Any

from lockwork import Depends, Lockwork, current_job
from lockwork.hooks import Failed, Started, Succeeded
from lockwork.injection import INJECTED
from lockwork.jobs.current import current_jobs
from notes import record

lw = Lockwork()


def note(event: str, items: list[Any], **facts: object) -> None:
    """Record a call with its items and jobs."""
    jobs = current_jobs()
    record(event, items=items, ids=[job.id for job in jobs], attempts=[job.attempt for job in jobs], **facts)


seen: set[str] = set()


def note_once(items: list[Any]) -> None:
    """Record that one of the jobs is being cancelled."""
    for job in current_jobs():
        if job.cancelled and job.id not in seen:
            seen.add(job.id)
            note("told", items)


def told(event: str, id: str, what: object) -> None:
    with Path(f"{os.environ['HISTORY']}.hooks").open("a") as file:
        file.write(json.dumps([event, id, repr(what)]) + "\n")


if "HOOKS" in os.environ:

    @lw.hooks.start
    async def started(event: Started) -> None:
        told("start", event.id, event.args)

    @lw.hooks.success
    async def succeeded(event: Succeeded) -> None:
        told("success", event.id, event.result)

    @lw.hooks.failure
    async def failed(event: Failed) -> None:
        told("failure", event.id, event.error)


@lw.task(batch=10, linger="10s")
async def squares(numbers: list[int]) -> list[int]:
    note("ran", numbers)
    return [number * number for number in numbers]


@lw.task(batch=10, linger="10s")
def squares_in_a_thread(numbers: list[int]) -> list[int]:
    note("ran", numbers, thread=threading.current_thread().name)
    return [number * number for number in numbers]


@lw.task(batch=100)
async def at_once(numbers: list[int]) -> None:
    note("ran", numbers)


@lw.task(batch=1000, linger="100ms")
async def lingers(numbers: list[int]) -> list[int]:
    note("ran", numbers)
    return numbers


@lw.task(batch=4, linger="10s", retries=2, backoff="10ms", give_up_on=PermissionError)
async def picky(words: list[str]) -> list[str | Exception]:
    """Refuse single words: some until their second attempt, some always."""
    note("ran", words)
    found: list[str | Exception] = []
    for word, job in zip(words, current_jobs(), strict=True):
        if word == "later" and job.attempt == 1:
            found.append(ConnectionError("not yet"))
        elif word == "never":
            found.append(PermissionError("not this one"))
        elif word == "large":
            found.append("x" * 5_000_000)
        else:
            found.append(word.upper())
    return found


@lw.task(batch=3, linger="100ms", retries=1, backoff="10ms")
def fails_once(numbers: list[int]) -> list[int]:
    note("ran", numbers)
    if current_jobs()[0].attempt == 1:
        raise ValueError("all of them")
    return numbers


@lw.task(batch=3, linger="10s")
async def miscounts(numbers: list[int]) -> list[int]:
    note("ran", numbers)
    return [0]


@lw.task(batch=2, linger="10s", timeout=0.2, retries=0)
async def too_slow(numbers: list[int]) -> None:
    await asyncio.sleep(60)


@lw.task(batch=2, linger="10s", timeout=0.2, retries=0)
def too_slow_in_a_thread(numbers: list[int]) -> None:
    while True:
        time.sleep(0.005)


@lw.task(batch=3, linger="10s")
async def held(gates: list[str]) -> list[bool]:
    note("ran", gates)
    try:
        while not all(Path(gate).exists() for gate in gates):
            await asyncio.sleep(0.005)
            note_once(gates)
    except asyncio.CancelledError:
        note("cancelled", gates)
        raise
    return [job.cancelled for job in current_jobs()]


@lw.task(batch=3, linger="10s")
def held_in_a_thread(gates: list[str]) -> list[bool]:
    note("ran", gates)
    try:
        while not all(Path(gate).exists() for gate in gates):
            time.sleep(0.005)
            note_once(gates)
    except BaseException:
        note("cancelled", gates)
        raise
    return [job.cancelled for job in current_jobs()]


@lw.task(batch=10, linger="1m")
async def patient(numbers: list[int]) -> None:
    note("ran", numbers)


@lw.task(batch=5, linger="10s", key="order:{item[0]}")
async def keyed(pairs: list[tuple[int, str]]) -> list[str]:
    note("ran", pairs)
    assert all(isinstance(pair, tuple) for pair in pairs)
    return [text for _, text in pairs]


async def get_store() -> AsyncIterator[list[int]]:
    yield [42]
    note("closed", [])


@lw.task(batch=3, linger="10s")  # type: ignore[arg-type]  # without a default, type checkers require the argument
async def stores(store: Annotated[list[int], Depends(get_store)], numbers: list[int]) -> list[int]:
    note("ran", numbers)
    return [number + store[0] for number in numbers]


@lw.task(batch=3, linger="10s")
def stores_in_a_thread(numbers: list[int], store: Annotated[list[int], Depends(get_store)] = INJECTED) -> list[int]:
    return [number + store[0] for number in numbers]


@lw.task(batch=3, linger="10s")
async def asks(numbers: list[int]) -> list[Any]:
    """Return the jobs as the call sees them."""
    found = current_jobs()
    await found[0].aprogress("first")
    try:
        current_job()
    except RuntimeError as error:
        return [str(error), [job.task for job in found], [job.id for job in found]]
    return [None, None, None]


@lw.task
async def add(a: int, b: int) -> int:
    assert [job.id for job in current_jobs()] == [current_job().id]
    return a + b
