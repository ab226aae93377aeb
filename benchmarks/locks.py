"""How fast locks are taken and given back."""

from __future__ import annotations

import asyncio
from time import perf_counter

import redis
import redis.asyncio

from benchmarks.figures import Bench, Figure
from lockwork import Lockwork

TASKS = 32


def uncontended_pair(bench: Bench) -> list[Figure]:
    """One thread takes and releases one lock, over and over."""
    count = bench.count(3000)
    with Lockwork(bench.url) as lw, redis.Redis.from_url(bench.url) as client:
        lock = lw.lock("pair")

        def ours() -> float:
            began = perf_counter()
            for _ in range(count):
                lock.acquire()
                lock.release()
            return count / (perf_counter() - began)

        def floor() -> float:
            began = perf_counter()
            for _ in range(count):
                client.set("pair", "token", nx=True, px=15_000)
                client.delete("pair")
            return count / (perf_counter() - began)

        mine, bare = bench.best(ours, floor)
    return [Figure("lock pair, uncontended", "pairs/s", mine, bare, "SET NX PX, DEL", 0.9, goal_is_ratio=True)]


def many_tasks(bench: Bench) -> list[Figure]:
    """Asyncio tasks take and release a lock each."""
    count = bench.count(300)

    async def measure(work: list[object]) -> float:
        began = perf_counter()
        await asyncio.gather(*work)  # type: ignore[call-overload]
        return TASKS * count / (perf_counter() - began)

    async def ours() -> float:
        async with Lockwork(bench.url) as lw:

            async def pairs(number: int) -> None:
                lock = lw.lock(f"task-{number}")
                for _ in range(count):
                    await lock.aacquire()
                    await lock.arelease()

            await pairs(0)
            return await measure([pairs(number) for number in range(TASKS)])

    async def floor() -> float:
        async with redis.asyncio.Redis.from_url(bench.url) as client:

            async def pairs(number: int) -> None:
                for _ in range(count):
                    await client.set(f"task-{number}", "token", nx=True, px=15_000)
                    await client.delete(f"task-{number}")

            await pairs(0)
            return await measure([pairs(number) for number in range(TASKS)])

    mine, bare = bench.best(lambda: asyncio.run(ours()), lambda: asyncio.run(floor()))
    return [Figure("lock pairs, 32 tasks, 32 locks", "pairs/s", mine, bare, "redis.asyncio pool", 30_000)]
