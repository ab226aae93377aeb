"""Processes that compete for one lock, whichever library it comes from, and what the server did for them."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from threading import BrokenBarrierError
from typing import Any, NamedTuple

import redis
import redis_lock  # type: ignore[import-untyped]

from benchmarks.uncontended import LEASE
from lockwork import Lockwork

NAME = "contended"
OWN = "lockwork"

Steps = tuple[Callable[[], object], Callable[[], object]]
"""How to acquire, and how to release."""


class Turn(NamedTuple):
    """One grant, by the clock that all processes of a machine share."""

    asked: float
    got: float
    released: float


@dataclass(frozen=True, slots=True)
class Race:
    """What came of a run: per process its turns within the time, and per turn the commands sent, and all that ran."""

    turns: list[list[Turn]]
    sent: float
    ran: float

    @property
    def all(self) -> list[Turn]:
        """The turns of all processes."""
        return [turn for turns in self.turns for turn in turns]


@contextmanager
def _lockwork(url: str) -> Iterator[Steps]:
    with Lockwork(url) as lw:
        lock = lw.lock(NAME)
        yield lock.acquire, lock.release


@contextmanager
def _redis_py(url: str) -> Iterator[Steps]:
    with redis.Redis.from_url(url) as client:
        lock = client.lock(f"{NAME}-redis-py", timeout=LEASE)
        yield lock.acquire, lock.release


@contextmanager
def _python_redis_lock(url: str) -> Iterator[Steps]:
    with redis.Redis.from_url(url) as client:
        lock = redis_lock.Lock(client, NAME, expire=LEASE)
        yield lock.acquire, lock.release


LIBRARIES: dict[str, Any] = {OWN: _lockwork, "redis-py": _redis_py, "python-redis-lock": _python_redis_lock}
_DIRECT = {"set", "blpop", "eval", "evalsha", "ping", "subscribe", "script|load"}
"""What these libraries send to the server themselves; their scripts run other commands."""

_starts: list[Any] = []


def race(library: str, url: str, processes: int, seconds: float, hold: float) -> Race:
    """Let processes compete for one lock for a while."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    start = context.Barrier(processes + 1)
    with (
        ProcessPoolExecutor(processes, context, initializer=_prepare, initargs=(start,)) as pool,
        redis.Redis.from_url(url) as client,
    ):
        running = [pool.submit(_compete, library, url, seconds, hold) for _ in range(processes)]
        try:
            start.wait(60)
        except BrokenBarrierError:
            raise RuntimeError("the competing processes did not start") from None
        client.config_resetstat()
        start.wait(60)
        ended = [future.result() for future in running]
        stats: dict[str, Any] = client.info("commandstats")
    calls = {name.removeprefix("cmdstat_"): float(stat["calls"]) for name, stat in stats.items()}
    for ours in ("config|resetstat", "info"):
        calls.pop(ours, None)
    every = sum(count for _, count in ended)
    sent = sum(calls.get(name, 0.0) for name in _DIRECT)
    return Race([turns for turns, _ in ended], sent / every, sum(calls.values()) / every)


def _prepare(start: Any) -> None:
    _starts.append(start)


def _compete(library: str, url: str, seconds: float, hold: float) -> tuple[list[Turn], int]:
    """Returns the turns within the time, and how many there were in all, those before and after it included."""
    turns: list[Turn] = []
    with LIBRARIES[library](url) as (acquire, release):
        acquire()
        release()
        _starts[0].wait(60)  # all are connected: the count of commands begins
        _starts[0].wait(60)
        end = time.monotonic() + seconds
        while True:
            asked = time.monotonic()
            acquire()
            got = time.monotonic()
            time.sleep(hold)
            turns.append(Turn(asked, got, time.monotonic()))
            release()
            if got >= end:
                return turns[:-1], len(turns)
