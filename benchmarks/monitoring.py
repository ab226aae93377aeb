"""What it costs that a worker is watched: history, times and middlewares, beside the same worker without them.

A machine's speed changes by a tenth from one second to the next, and the costs are smaller than that. So three workers
stay up and take turns of half a second: the median of the ratios within a round has little of the noise.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from contextlib import ExitStack
from operator import truediv
from time import perf_counter

import redis

from benchmarks.figures import Bench, Figure
from benchmarks.tasks import bench_app
from benchmarks.working import worker

POLL = 0.002
APPS = ("benchmarks.tasks:lw", "benchmarks.unmonitored:lw", "benchmarks.tasks:surrounded")


def monitoring(bench: Bench) -> list[Figure]:
    """Drain the same jobs by workers that differ in nothing but what they do around each job."""
    with redis.Redis.from_url(bench.url) as client, ExitStack() as stack:
        client.flushall()
        drains = [_drain(stack, f"{bench.url}?db={db}", app, bench.count(20_000)) for db, app in enumerate(APPS)]
        usual, bare, surrounded = rates = [list[float]() for _ in APPS]
        order = list(zip(drains, rates, strict=True))
        for _ in range(bench.count(60)):
            for drained, found in order:
                found.append(drained())
            order.append(order.pop(0))
        client.flushall()
    rate = statistics.median(usual)
    around = statistics.median((1 / slow - 1 / fast) * 1e6 for slow, fast in zip(surrounded, usual, strict=True))
    of_bare, of_usual = (statistics.median(map(truediv, *pair)) for pair in ((usual, bare), (surrounded, usual)))
    floor = ("no history, no times", 0.97)
    return [
        Figure("drain, monitored as usual", "jobs/s", rate, rate / of_bare, *floor, goal_is_ratio=True),
        Figure("drain, a middleware around each job", "jobs/s", rate * of_usual, rate, "no middleware", None),
        Figure(
            "... the time of the middleware", "us", around, 1e6 / rate, "the job without it", 1.5, less_is_better=True
        ),
    ]


def _drain(stack: ExitStack, url: str, app: str, count: int) -> Callable[[], float]:
    """Start a worker; returns what lets it drain so many jobs, and returns jobs per second."""
    lw, nothing = stack.enter_context(bench_app(url))
    queue, arguments = lw.queue(), [(number,) for number in range(count)]
    stack.enter_context(worker(url, "default", app))

    def drained() -> float:
        queue.pause()
        nothing.enqueue_many(arguments)
        end = queue.status().succeeded + count
        began = perf_counter()
        queue.resume()
        while queue.status().succeeded < end:
            time.sleep(POLL)
        return count / (perf_counter() - began)

    drained()  # the first jobs wait for a worker that still starts
    return drained
