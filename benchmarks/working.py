"""How fast a worker drains a queue, and how soon an idle one begins."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from time import perf_counter

import redis

from benchmarks.enqueueing import PAYLOAD
from benchmarks.figures import Bench, Best, Figure, quantile
from benchmarks.tasks import began, bench_app, idle
from lockwork import Lockwork

CONCURRENCY = 1000
POLL = 0.02
BATCH = 500


def drain(bench: Bench) -> list[Figure]:
    """One worker process runs jobs that do nothing: leased, settled by their token, retried if they failed."""
    count = bench.count(200_000)
    arguments = [(number,) for number in range(count)]

    def ours() -> float:
        with bench_app(bench.url) as (lw, nothing), redis.Redis.from_url(bench.url) as client:
            client.flushall()
            nothing.enqueue_many(arguments)
            with worker(bench.url, "default"):
                return rate(lw, count)

    def floor() -> float:
        async def nothing() -> None: ...

        async def run() -> None:
            while ids := client.lpop("list", BATCH):
                pipeline = client.pipeline(transaction=False)
                pipeline.hmget("jobs", ids)
                pipeline.hset("run", mapping=dict.fromkeys(ids, "token"))
                for _ in pipeline.execute()[0]:
                    await nothing()
                pipeline.hdel("jobs", *ids)
                pipeline.hdel("run", *ids)
                pipeline.execute()

        with redis.Redis.from_url(bench.url) as client:
            client.flushall()
            for at in range(0, count, BATCH):
                ids = [f"{number:016}" for number in range(at, min(at + BATCH, count))]
                client.hset("jobs", mapping=dict.fromkeys(ids, PAYLOAD))
                client.rpush("list", *ids)
            began = perf_counter()
            asyncio.run(run())
            return count / (perf_counter() - began)

    mine, bare = bench.best(ours, floor)
    return [
        Figure(
            "drain, one worker process", "jobs/s", mine, bare, "bare hashes, 500 at a time", 0.75, goal_is_ratio=True
        )
    ]


def threads(bench: Bench) -> list[Figure]:
    """The same with `def` tasks, each in a thread of the worker's pool."""
    count = bench.count(60_000)
    arguments = [(number,) for number in range(count)]

    def ours() -> float:
        with Lockwork(bench.url) as lw, redis.Redis.from_url(bench.url) as client:
            client.flushall()
            lw.task(name="idle", keep_result=False)(idle).enqueue_many(arguments)
            with worker(bench.url, "default"):
                return rate(lw, count)

    def floor() -> float:
        async def run() -> None:
            loop = asyncio.get_running_loop()
            with ThreadPoolExecutor(32) as pool:
                for _ in range(0, count, BATCH):
                    await asyncio.gather(*(loop.run_in_executor(pool, idle, number) for number in range(BATCH)))

        began = perf_counter()
        asyncio.run(run())
        return count / (perf_counter() - began)

    mine, bare = bench.best(ours, floor)
    return [Figure("drain, def tasks in threads", "jobs/s", mine, bare, "run_in_executor", 0.85, goal_is_ratio=True)]


def idle_latency(bench: Bench) -> list[Figure]:
    """From the enqueue call to the first line of the job, in a worker that sleeps."""
    count = bench.count(500)
    with Lockwork(bench.url) as lw, redis.Redis.from_url(bench.url) as client:
        client.flushall()
        task = lw.task(name="began", queue="latency")(began.function)
        with worker(bench.url, "latency"):
            task.enqueue().result(timeout=30)
            each = max(10, count // max(5, bench.rounds))
            mine, bare = [], []
            for _ in range(max(5, bench.rounds)):
                mine.append([_one_latency(task) for _ in range(each)])
                bare.append(_blocking_pop(bench.url, each))
    names = (("p50", 0.5, 2.0), ("p99", 0.99, None))
    return [
        Figure(f"enqueue to start, idle worker, {name}", "ms", _quantiles(mine, share), _quantiles(bare, share),
               "RPUSH, BLPOP", goal, goal_is_ratio=True, less_is_better=True)
        for name, share, goal in names
    ]  # fmt: skip


@contextmanager
def worker(
    url: str, queue: str, app: str = "benchmarks.tasks:lw", more: Mapping[str, str] | None = None, processes: int = 1
) -> Iterator[None]:
    """A real `lockwork worker`; `more`: for its environment."""
    command = [sys.executable, "-m", "lockwork", "worker", app, "--queue", queue, "--processes", str(processes)]
    process = subprocess.Popen(
        [*command, "--concurrency", str(CONCURRENCY)],
        env={**os.environ, "LOCKWORK_URL": url, **(more or {})},
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        process.terminate()
        process.wait(30)


def rate(lw: Lockwork, count: int) -> float:
    """Jobs per second between two looks: at the first job done, and at the last."""
    queue = lw.queue()
    while not (first := queue.status().succeeded):
        time.sleep(POLL)
    began = perf_counter()
    while queue.status().succeeded < count:
        time.sleep(POLL)
    return (count - first) / (perf_counter() - began)


def _quantiles(rounds: list[list[float]], share: float) -> Best:
    return Best(
        [quantile(each, share) for each in rounds], quantile([value for each in rounds for value in each], share)
    )


def _one_latency(task: object) -> float:
    called = time.monotonic()
    started: float = task.enqueue().result(timeout=10)  # type: ignore[attr-defined]
    time.sleep(0.002)  # the worker goes back to sleep
    return (started - called) * 1000


def _blocking_pop(url: str, count: int) -> list[float]:
    latencies: list[float] = []
    with redis.Redis.from_url(url) as producer, redis.Redis.from_url(url) as consumer:

        def consume() -> None:
            for _ in range(count):
                _, called = consumer.blpop(["latency"])
                latencies.append((time.monotonic() - float(called)) * 1000)
                producer.rpush("answers", 1)

        thread = threading.Thread(target=consume)
        thread.start()
        for _ in range(count):
            producer.rpush("latency", repr(time.monotonic()))
            producer.blpop(["answers"])
            time.sleep(0.002)
        thread.join()
    return latencies
