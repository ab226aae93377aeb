"""How fast jobs get into a queue, and how little room they take there."""

from __future__ import annotations

import asyncio
from time import perf_counter

import redis
import redis.asyncio

from benchmarks.figures import Bench, Figure
from benchmarks.tasks import bench_app
from lockwork.ids import new_id
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import leases
from lockwork.protocol.queue.leases import Outcome

TASKS = 32
PAYLOAD = b'0,4,,;["nothing",[42]]'
"""As long as the record of such a job."""


def bulk(bench: Bench) -> list[Figure]:
    """One call of `enqueue_many` with very many jobs."""
    count = bench.count(100_000)
    arguments = [(number,) for number in range(count)]
    with bench_app(bench.url) as (lw, nothing), redis.Redis.from_url(bench.url) as client:

        def ours() -> float:
            client.flushall()
            lw.queue().status()
            began = perf_counter()
            nothing.enqueue_many(arguments)
            return count / (perf_counter() - began)

        def floor() -> float:
            client.flushall()
            began = perf_counter()
            for at in range(0, count, 1000):
                pipeline = client.pipeline(transaction=False)
                for _ in range(at, min(at + 1000, count)):
                    pipeline.lpush("list", PAYLOAD)
                pipeline.execute()
            return count / (perf_counter() - began)

        mine, bare = bench.best(ours, floor)
    return [Figure("enqueue_many", "jobs/s", mine, bare, "pipelines of 1000 LPUSH", 1.2, goal_is_ratio=True)]


def one_at_a_time(bench: Bench) -> list[Figure]:
    """One task enqueues a job, waits for the answer, and enqueues the next."""
    return _awaited(bench, 1, bench.count(3000), "aenqueue, one at a time", 1.5)


def from_many_tasks(bench: Bench) -> list[Figure]:
    """The same from many tasks at once."""
    return _awaited(bench, TASKS, bench.count(1000), "aenqueue from 32 tasks", 5.0)


def waiting_job(bench: Bench) -> list[Figure]:
    """The server's memory per waiting job."""
    count = bench.count(100_000)
    with bench_app(bench.url) as (_lw, nothing), redis.Redis.from_url(bench.url) as client:
        nothing.enqueue(1)

        def used() -> int:
            return int(client.info("memory")["used_memory"])

        client.flushall()
        before = used()
        for at in range(0, count, 1000):
            client.rpush("list", *[PAYLOAD] * (min(at + 1000, count) - at))
        bare = (used() - before) / count
        client.flushall()
        before = used()
        nothing.enqueue_many([(number,) for number in range(count)])
        mine = (used() - before) / count
        client.flushall()
    return [Figure("memory of a waiting job", "bytes", mine, bare, "a list of payloads", 150, less_is_better=True)]


def ended_job(bench: Bench) -> list[Figure]:
    """The server's memory per job that has ended and is in history, without its result."""
    count = bench.count(10_000)
    with bench_app(bench.url) as (lw, nothing), redis.Redis.from_url(bench.url) as client:
        client.flushall()
        client.rpush("list", *[PAYLOAD] * 1000)
        bare = int(client.memory_usage("list", samples=0) or 0) / 1000
        client.flushall()
        nothing.enqueue_many([(number,) for number in range(count)])
        keys, session = QueueKeys("lw", "default"), "worker-1.example.org/12345/AbCdEfGh"
        lw.runtime.run(leases.beat(keys, {session: True}, 600_000, 5.0))
        while held := lw.runtime.run(leases.reserve(keys, session, 500, new_id(), "")).jobs:
            # of successes, history keeps a sample
            ends = [Outcome(job.id, job.token, "c") for job in held]
            lw.runtime.run(leases.settle(keys, session, ends, 600_000))
        used = sum(int(client.memory_usage(key, samples=0) or 0) for key in (keys.history, keys.history_order))
        mine = used / int(client.zcard(keys.history_order))
        client.flushall()
    return [Figure("memory of an ended job", "bytes", mine, bare, "a list of payloads", 300, less_is_better=True)]


def _awaited(bench: Bench, tasks: int, count: int, name: str, goal: float) -> list[Figure]:
    async def ours() -> float:
        with bench_app(bench.url) as (lw, nothing):

            async def produce() -> None:
                for _ in range(count):
                    await nothing.aenqueue(42)

            await nothing.aenqueue(42)
            began = perf_counter()
            await asyncio.gather(*(produce() for _ in range(tasks)))
            rate = tasks * count / (perf_counter() - began)
            await lw.aclose()
        return rate

    async def floor() -> float:
        async with redis.asyncio.Redis.from_url(bench.url) as client:

            async def produce() -> None:
                for _ in range(count):
                    await client.rpush("list", PAYLOAD)

            await client.flushall()
            began = perf_counter()
            await asyncio.gather(*(produce() for _ in range(tasks)))
            return tasks * count / (perf_counter() - began)

    mine, bare = bench.best(lambda: asyncio.run(ours()), lambda: asyncio.run(floor()))
    return [Figure(name, "jobs/s", mine, bare, "redis.asyncio RPUSH", goal, goal_is_ratio=True)]
