"""The tasks of the queue tests; each attempt first appends a line to the file `path`."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from gates import opened
from lockwork import Lockwork, current_job
from notes import note

lw = Lockwork(unknown_task_ttl=0)


@dataclass
class Order:
    buyer: str
    at: datetime


@lw.task
async def add(a: int, b: int = 1) -> int:
    return a + b


@lw.task
def multiply(a: int, b: int) -> int:
    return a * b


@lw.task
async def where() -> list[Any]:
    job = current_job()
    return [job.id, job.task, job.queue, job.attempt, os.getpid(), threading.current_thread().name]


@lw.task
def where_in_a_thread() -> list[Any]:
    job = current_job()
    return [job.id, job.task, job.queue, job.attempt, os.getpid(), threading.current_thread().name]


@lw.task
async def tomorrow(order: Order) -> Order:
    return Order(order.buyer.title(), order.at.replace(day=order.at.day + 1))


@lw.task(keep_result=False)
async def quiet(path: str) -> str:
    note(path, "ran")
    return "never kept"


@lw.task(keep_result=False)
async def mark(path: str, number: int = 0) -> None:
    note(path, "ran", number=number, at=time.time())


@lw.task(retries=3, backoff="20ms")
async def fails_until(path: str, attempt: int) -> int:
    note(path, "ran", at=time.time())
    if current_job().attempt < attempt:
        raise ValueError(f"not before attempt {attempt}")
    return current_job().attempt


@lw.task(retries=2, backoff=0)
def fails_in_a_thread(path: str) -> None:
    note(path, "ran")
    raise KeyError("no such thing")


@lw.task(retries=0, timeout=0.2)
async def too_slow(path: str) -> None:
    note(path, "ran")
    try:
        await asyncio.sleep(60)
    finally:
        note(path, "cancelled")


@lw.task(retries=0, timeout=1)
def too_slow_in_a_thread(path: str) -> None:
    note(path, "ran")
    try:
        while True:
            time.sleep(0.005)
    finally:
        note(path, "interrupted")


@lw.task(retries=2, backoff="10ms")
async def hold(path: str, seconds: float = 60) -> int:
    note(path, "ran")
    await asyncio.sleep(seconds)
    note(path, "done")
    return current_job().attempt


@lw.task(retries=2, backoff="10ms")
def hold_in_a_thread(path: str, seconds: float = 60) -> int:
    note(path, "ran")
    time.sleep(seconds)
    note(path, "done")
    return current_job().attempt


@lw.task(retries=2, backoff="10ms")
async def hold_once(path: str) -> int:
    """Block forever on the first attempt."""
    note(path, "ran")
    if current_job().attempt == 1:
        await asyncio.sleep(600)
    return current_job().attempt


@lw.task(retries=2, backoff="10ms")
async def gated(path: str, gate: str) -> int:
    """Wait for the file `gate` on the first attempt."""
    note(path, "ran")
    if current_job().attempt == 1:
        await opened(gate)
    note(path, "done")
    return current_job().attempt


@lw.task(retries=2, backoff="10ms")
def gated_in_a_thread(path: str, gate: str) -> int:
    note(path, "ran")
    while current_job().attempt == 1 and not Path(gate).exists():
        time.sleep(0.01)
    note(path, "done")
    return current_job().attempt


@lw.task(retries=1)
async def kills_its_process(path: str) -> None:
    note(path, "ran")
    os.kill(os.getpid(), 9)


@lw.task(retries=0, queue="once")
async def once(path: str) -> None:
    note(path, "ran")


class Odd(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text for you")


class Base(BaseException):
    pass


@lw.task(retries=0)
async def raises(what: str) -> object:
    problems: dict[str, BaseException] = {
        "surrogate": ValueError("\udcff"),
        "odd": Odd(),
        "base": Base("not an Exception"),
        "exit": SystemExit(3),
        "interrupt": KeyboardInterrupt(),
        "cancelled": asyncio.CancelledError(),
        "generator": GeneratorExit(),
        "stop": StopAsyncIteration(),
        "long": ValueError("x" * 100_000),
    }
    raise problems[what]


@lw.task(retries=0)
def raises_in_a_thread(what: str) -> object:
    problems: dict[str, BaseException] = {
        "base": Base("not an Exception"),
        "exit": SystemExit(3),
        "interrupt": KeyboardInterrupt(),
        "stop": StopIteration(),
    }
    raise problems[what]


@lw.task(retries=0)
async def returns(what: str) -> object:
    values: dict[str, object] = {
        "object": object(),
        "large": "x" * (5 << 20),
        "surrogate": "\udcff",
        "nan": float("nan"),
    }
    return values[what]
