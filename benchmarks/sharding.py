"""What a shard of a Cluster does for each job, by the number of shards and of a queue's partitions.

Few machines have a core for each server and worker, so jobs per second say little about growth. The processor time of
each server does: with three shards that share the work, each should spend a third of it.
"""

from __future__ import annotations

import time
from time import perf_counter
from typing import NamedTuple

import redis

from benchmarks.figures import Bench, Figure
from benchmarks.nodes import cluster, cpu, url_of
from benchmarks.tasks import bench_app
from benchmarks.working import worker

SHARDS, PARTITIONS = (1, 3), (1, 3, 6)
POLL = 0.1
"""Seconds between two looks at the queue, which cost the shards, too."""


class _Drained(NamedTuple):
    """One drain; microseconds of each shard's processor per job, to run it and to enqueue it."""

    rate: float
    costs: list[float]
    enqueued: list[float]


def sharding(bench: Bench) -> list[Figure]:
    """Drain a queue of one, three and six partitions on one shard and on three."""
    found: dict[tuple[int, int], _Drained] = {}
    for shards in SHARDS:
        with cluster(shards) as nodes:
            for partitions in PARTITIONS:
                rounds = [_drained(nodes, partitions, bench.count(100_000)) for _ in range(bench.rounds)]
                found[shards, partitions] = min(rounds, key=lambda drained: sum(drained.costs))
    base = found[1, 1]
    alone, spread = sum(base.enqueued), max(found[3, 3].enqueued)
    figures = [
        Figure("busiest shard, per job enqueued: 3 partitions on 3 shards", "us", spread, alone, "1 on 1", 0.45,
               goal_is_ratio=True, less_is_better=True),
    ]  # fmt: skip
    for (shards, partitions), drained in found.items():
        name = f"{partitions} partition{'s' * (partitions > 1)} on {shards} shard{'s' * (shards > 1)}"
        goal = 0.45 if shards == 3 and partitions >= 3 else None
        each = tuple((f"us on shard {number}", cost) for number, cost in enumerate(drained.costs, 1))
        figures += [
            Figure(f"busiest shard, per job run: {name}", "us", max(drained.costs), max(base.costs), "1 on 1", goal,
                   goal_is_ratio=True, less_is_better=True, others=each),
            Figure(f"drain: {name}", "jobs/s", drained.rate, base.rate, "1 on 1", None),
        ]  # fmt: skip
    return figures


def _drained(nodes: list[redis.Redis], partitions: int, count: int) -> _Drained:
    for node in nodes:
        node.flushall()
    url = url_of(nodes)
    with bench_app(url, partitions) as (lw, nothing):
        queue = lw.queue()
        queue.pause()
        before = [*map(cpu, nodes)]
        nothing.enqueue_many([(number,) for number in range(count)])
        enqueued = _since(before, nodes, count)
        with worker(url, "default", "benchmarks.tasks:sharded", {"BENCH_PARTITIONS": str(partitions)}):
            while not any(row.alive for row in lw.workers()):
                time.sleep(POLL)
            before, began = [*map(cpu, nodes)], perf_counter()
            queue.resume()
            while queue.status().succeeded < count:
                time.sleep(POLL)
            seconds = perf_counter() - began
            return _Drained(count / seconds, _since(before, nodes, count), enqueued)


def _since(before: list[float], nodes: list[redis.Redis], count: int) -> list[float]:
    """Microseconds of each node's processor since then, per job."""
    return [(cpu(node) - at) / count * 1e6 for node, at in zip(nodes, before, strict=True)]
