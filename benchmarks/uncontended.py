"""How fast locks are taken and given back when nobody else wants them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from time import perf_counter

import redis
import redis.asyncio
import redis_lock  # type: ignore[import-untyped]

from benchmarks.figures import Bench, Figure
from lockwork import Lockwork

TASKS = 32
LEASE = 15
"""Seconds; ours is renewed besides, the others' are not."""


def pair(bench: Bench) -> list[Figure]:
    """One thread takes and releases one lock, over and over."""
    count = bench.count(3000)

    def rate(step: Callable[[], object]) -> float:
        began = perf_counter()
        for _ in range(count):
            step()
        return count / (perf_counter() - began)

    with Lockwork(bench.url) as lw, redis.Redis.from_url(bench.url) as client:
        lock = lw.lock("pair")
        second_lock = client.lock("redis-py", timeout=LEASE)
        third_lock = redis_lock.Lock(client, "python-redis-lock", expire=LEASE)

        def ours() -> None:
            lock.acquire()
            lock.release()

        def floor() -> None:
            client.set("pair", "token", nx=True, px=LEASE * 1000)
            client.delete("pair")

        def redis_py() -> None:
            second_lock.acquire()
            second_lock.release()

        def python_redis_lock() -> None:
            third_lock.acquire()
            third_lock.release()

        mine, bare, second, third = bench.best(
            lambda: rate(ours), lambda: rate(floor), lambda: rate(redis_py), lambda: rate(python_redis_lock)
        )
    others = (("redis-py", second), ("python-redis-lock", third))
    return [
        Figure(
            "lock pair, uncontended", "pairs/s", mine, bare, "SET NX PX, DEL", 0.95, goal_is_ratio=True, others=others
        )
    ]


def sticky(bench: Bench) -> list[Figure]:
    """The same process takes a sticky lock again and again."""
    count = bench.count(200_000)
    with Lockwork(bench.url) as lw:
        lock, floor_lock = lw.lock("sticky", sticky=True), threading.RLock()
        lock.acquire()
        lock.release()

        def ours() -> float:
            began = perf_counter()
            for _ in range(count):
                lock.acquire()
                lock.release()
            return count / (perf_counter() - began)

        def floor() -> float:
            began = perf_counter()
            for _ in range(count):
                floor_lock.acquire()
                floor_lock.release()
            return count / (perf_counter() - began)

        mine, bare = bench.best(ours, floor)
    return [Figure("lock pair, sticky", "pairs/s", mine, bare, "threading.RLock", 500_000)]


def many_tasks(bench: Bench) -> list[Figure]:
    """Asyncio tasks take and release a lock each."""
    count = bench.count(300)

    async def measure(step: Callable[[int], Awaitable[None]]) -> float:
        async def pairs(number: int) -> None:
            for _ in range(count):
                await step(number)

        await step(0)
        began = perf_counter()
        await asyncio.gather(*(pairs(number) for number in range(TASKS)))
        return TASKS * count / (perf_counter() - began)

    async def ours() -> float:
        async with Lockwork(bench.url) as lw:
            locks = [lw.lock(f"task-{number}") for number in range(TASKS)]

            async def step(number: int) -> None:
                await locks[number].aacquire()
                await locks[number].arelease()

            return await measure(step)

    async def floor() -> float:
        async with redis.asyncio.Redis.from_url(bench.url) as client:

            async def step(number: int) -> None:
                await client.set(f"task-{number}", "token", nx=True, px=LEASE * 1000)
                await client.delete(f"task-{number}")

            return await measure(step)

    async def redis_py() -> float:
        async with redis.asyncio.Redis.from_url(bench.url) as client:
            locks = [client.lock(f"redis-py-{number}", timeout=LEASE) for number in range(TASKS)]

            async def step(number: int) -> None:
                await locks[number].acquire()
                await locks[number].release()

            return await measure(step)

    mine, bare, second = bench.best(
        lambda: asyncio.run(ours()), lambda: asyncio.run(floor()), lambda: asyncio.run(redis_py())
    )
    return [
        Figure("lock pairs, 32 tasks, 32 locks", "pairs/s", mine, bare, "redis.asyncio pool", 30_000,
               others=(("redis-py asyncio", second),))
    ]  # fmt: skip
