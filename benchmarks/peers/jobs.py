"""The jobs that every queue runs, and the record of when each started; this module needs the standard library only.

A job's argument is the time at which it was due to be enqueued. So a sender that falls behind does not hide a delay.
"""

from __future__ import annotations

import asyncio
import os
import struct
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

KINDS = ("noop", "io", "cpu")
"""A job that does nothing, one that waits for 1 ms, and one that computes for 10 ms."""
IO_SECONDS, CPU_SECONDS = 0.001, 0.010
_ENTRY = struct.Struct("dd")
_files: dict[int, int] = {}
"""The open file of this process. A fork opens its own."""


def folder() -> Path:
    """Return the folder of the records."""
    return Path(os.environ["PEER_RECORDS"])


def record(due: float) -> None:
    """Append the start of a job to the file of this process."""
    pid = os.getpid()
    if pid not in _files:
        _files[pid] = os.open(folder() / str(pid), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(_files[pid], _ENTRY.pack(due, time.time()))


def records() -> Iterator[tuple[float, float]]:
    """Return when each job was due and when it started."""
    for file in folder().iterdir():
        content = file.read_bytes()
        yield from _ENTRY.iter_unpack(content[: len(content) - len(content) % _ENTRY.size])


def count() -> int:
    """Return how many jobs have started."""
    return sum(file.stat().st_size // _ENTRY.size for file in folder().iterdir())


def noop(due: float) -> None:
    """Do nothing."""
    record(due)


def io(due: float) -> None:
    """Wait, as for a database."""
    record(due)
    time.sleep(IO_SECONDS)


def cpu(due: float) -> None:
    """Compute, without a pause for other threads."""
    record(due)
    end = time.thread_time() + CPU_SECONDS
    while time.thread_time() < end:
        pass


async def anoop(due: float) -> None:
    """Async version of `noop`."""
    record(due)


async def aio(due: float) -> None:
    """Async version of `io`."""
    record(due)
    await asyncio.sleep(IO_SECONDS)


async def acpu(due: float) -> None:
    """Run `cpu` in a coroutine, which blocks the loop: for queues that have no processes for such jobs."""
    cpu(due)


BLOCKING: dict[str, Callable[[float], None]] = {"noop": noop, "io": io, "cpu": cpu}
ASYNC: dict[str, Callable[[float], Coroutine[Any, Any, None]]] = {"noop": anoop, "io": aio, "cpu": acpu}
