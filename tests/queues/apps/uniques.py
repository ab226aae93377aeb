"""Unique tasks; each attempt records its start, and waits for a file if `gate` is set."""

from __future__ import annotations

import asyncio
from pathlib import Path

from lockwork import Lockwork
from notes import note

lw = Lockwork()


async def work(path: str, name: str, version: int, gate: str | None) -> int:
    note(path, name=name, version=version)
    while gate is not None and not Path(gate).exists():
        await asyncio.sleep(0.005)
    return version


@lw.task(unique="report:{name}", backoff=0.05)
async def report(path: str, name: str, version: int = 1, gate: str | None = None) -> int:
    return await work(path, name, version, gate)


@lw.task(unique="sync:{name}", on_duplicate="replace", key="sync:{name}")
async def sync(path: str, name: str, version: int = 1, gate: str | None = None) -> int:
    return await work(path, name, version, gate)


@lw.task(unique="fails:{name}", retries=0)
async def fails(path: str, name: str, version: int = 1) -> None:
    await work(path, name, version, None)
    raise ValueError("it never works")


@lw.task(unique="index:{name}", debounce="300ms")
async def index(path: str, name: str, version: int = 1) -> int:
    return await work(path, name, version, None)


@lw.task(unique=True)
async def wants_numbers(numbers: list[int]) -> int:
    return sum(numbers)
