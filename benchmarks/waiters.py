"""A thousand asyncio tasks of one process that wait for the same lock."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from time import perf_counter
from typing import Any, NamedTuple

import redis
import redis.asyncio

from benchmarks.figures import Bench, Figure
from benchmarks.uncontended import LEASE
from lockwork import Lockwork

LOOK = 0.05
PATIENCE = 10
"""Seconds after which nobody waits any longer, and those who were served count."""


class Served(NamedTuple):
    """How a crowd was served: connections at the most, share of waiters in their own place, waiters per second."""

    connections: float
    in_place: float
    rate: float


def crowd(bench: Bench) -> list[Figure]:
    """They queue up behind a holder, who then releases; each takes the lock and passes it on."""
    count = bench.count(1000)
    mine, other = asyncio.run(_lockwork(bench.url, count)), asyncio.run(_redis_py(bench.url, count))
    name, rival = f"{count:,} tasks wait for one lock", "redis-py asyncio"
    return [
        Figure(f"{name}: connections", "", mine.connections, 1, "one for all", 3, less_is_better=True,
               others=((rival, other.connections),)),
        Figure(f"{name}: served in their place", "", mine.in_place, 1, "all", 1, others=((rival, other.in_place),)),
        Figure(f"{name}: served", "/s", mine.rate, _round_trips(bench), "PINGs of redis-py", None,
               others=((rival, other.rate),)),
    ]  # fmt: skip


async def _lockwork(url: str, count: int) -> Served:
    with redis.Redis.from_url(url) as watcher:
        before = _connections(watcher)
        async with Lockwork(url) as lw:
            lock = lw.lock("crowd")

            async def in_line() -> bool:
                return (await lock.ainspect()).waiters == count

            return await _served(watcher, before, count, lock.aacquire, lock.arelease, in_line)


async def _redis_py(url: str, count: int) -> Served:
    with redis.Redis.from_url(url) as watcher:
        before = _connections(watcher)
        async with redis.asyncio.Redis.from_url(url, max_connections=2 * count) as client:
            lock = client.lock("crowd-redis-py", timeout=10 * LEASE)
            watcher.config_resetstat()

            async def in_line() -> bool:
                stats: dict[str, Any] = watcher.info("commandstats")
                return bool(stats["cmdstat_set"]["calls"] > count)

            return await _served(watcher, before, count, lock.acquire, lock.release, in_line)


async def _served(
    watcher: redis.Redis,
    before: int,
    count: int,
    acquire: Callable[[], Awaitable[object]],
    release: Callable[[], Awaitable[object]],
    in_line: Callable[[], Awaitable[bool]],
) -> Served:
    served: list[int] = []

    async def wait(number: int) -> None:
        await acquire()
        served.append(number)
        await release()

    await acquire()
    waiting = [asyncio.create_task(wait(number)) for number in range(count)]
    while not await in_line():  # noqa: ASYNC110 - nobody tells
        await asyncio.sleep(LOOK)
    connections = _connections(watcher)
    began = perf_counter()
    await release()
    while len(served) < count and perf_counter() - began < PATIENCE:
        await asyncio.sleep(LOOK)
        connections = max(connections, _connections(watcher))
    took = perf_counter() - began
    in_place = sum(place == number for place, number in enumerate(served)) / len(served)
    rate = len(served) / took
    for task in waiting:
        task.cancel()
    await asyncio.wait(waiting)
    return Served(connections - before, in_place, rate)


def _connections(watcher: redis.Redis) -> int:
    return len(watcher.client_list())


def _round_trips(bench: Bench) -> float:
    count = bench.count(2000)
    with redis.Redis.from_url(bench.url) as client:
        began = perf_counter()
        for _ in range(count):
            client.ping()
        return count / (perf_counter() - began)
