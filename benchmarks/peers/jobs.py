"""The jobs that every queue runs, and the record of when each started; this module needs the standard library only.

A job's argument is the time at which it was due to be enqueued. So a sender that falls behind does not hide a delay.
"""

from __future__ import annotations

import asyncio
import itertools
import mmap
import os
import struct
import threading
import time
from bisect import bisect
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

KINDS = ("noop", "io", "cpu")
"""A job that does nothing, one that waits for 1 ms, and one that computes for 10 ms."""
IO_SECONDS, CPU_SECONDS = 0.001, 0.010
_ENTRY = struct.Struct("dd")
_NONE = bytes(_ENTRY.size)
_MOST = 1_000_000
"""Records of a process."""
_opened: dict[int, tuple[mmap.mmap, Iterator[int]]] = {}
"""The file of this process, and its free positions. A fork opens its own."""
_opening = threading.Lock()


def folder() -> Path:
    """Return the folder of the records."""
    return Path(os.environ["PEER_RECORDS"])


def record(due: float) -> None:
    """Write the start of a job to the mapped file of this process, without a system call for each job."""
    pid = os.getpid()
    if pid not in _opened:
        with _opening:
            if pid not in _opened:
                _opened[pid] = _open(folder() / str(pid))
    entries, free = _opened[pid]
    _ENTRY.pack_into(entries, next(free) * _ENTRY.size, due, time.time())


def _open(path: Path) -> tuple[mmap.mmap, Iterator[int]]:
    with path.open("xb+") as file:
        file.truncate(_MOST * _ENTRY.size)
        return mmap.mmap(file.fileno(), 0), itertools.count()


def records() -> Iterator[tuple[float, float]]:
    """Return when each job was due and when it started."""
    for path in folder().iterdir():
        yield from _ENTRY.iter_unpack(path.read_bytes()[: _written(path) * _ENTRY.size])


def count() -> int:
    """Return how many jobs have started."""
    return sum(_written(path) for path in folder().iterdir())


def _written(path: Path) -> int:
    """Return the number of entries in a file; those of Python end with zeros."""
    with path.open("rb") as file:

        def is_empty(at: int) -> bool:
            return os.pread(file.fileno(), _ENTRY.size, at * _ENTRY.size) == _NONE

        return bisect(range(path.stat().st_size // _ENTRY.size), False, key=is_empty)


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
