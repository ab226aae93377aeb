"""What it costs that a worker is watched: history, times and middlewares, beside the same worker without them."""

from __future__ import annotations

import redis

from benchmarks.figures import Bench, Figure
from benchmarks.tasks import bench_app
from benchmarks.working import rate, worker


def monitoring(bench: Bench) -> list[Figure]:
    """Drain the same queue by workers that differ in nothing but what they write down of each job."""
    count = bench.count(200_000)

    def drained(app: str) -> float:
        with bench_app(bench.url) as (lw, nothing), redis.Redis.from_url(bench.url) as client:
            client.flushall()
            nothing.enqueue_many([(number,) for number in range(count)])
            with worker(bench.url, "default", app):
                return rate(lw, count)

    apps = ("benchmarks.tasks:lw", "benchmarks.unmonitored:lw", "benchmarks.tasks:surrounded")
    watched, bare, surrounded = bench.best(*(lambda app=app: drained(app) for app in apps))
    return [
        Figure("drain, monitored as usual", "jobs/s", watched, bare, "no history, no times", 0.97, goal_is_ratio=True),
        Figure("drain, a middleware around each job", "jobs/s", surrounded, watched, "no middleware", None),
    ]
