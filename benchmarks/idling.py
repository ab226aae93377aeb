"""What workers with nothing to do cost a server, and how many of them a job wakes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from time import perf_counter
from typing import Any, NamedTuple

import redis

from benchmarks.figures import Bench, Figure
from benchmarks.nodes import cluster, cpu, url_of
from benchmarks.tasks import bench_app
from benchmarks.working import POLL, worker
from lockwork.protocol.keys import QueueKeys

FEW, MANY = 10, 40


class _Idle(NamedTuple):
    """For each worker process and server; messages for each job."""

    connections: float
    calls: float
    microseconds: float
    messages: float


def idle(bench: Bench) -> list[Figure]:
    """Let few and many worker processes sleep on one server and on three shards, then enqueue jobs one by one."""
    figures: list[Figure] = []
    with redis.Redis.from_url(bench.url) as server:
        figures += _compared(bench, [server], bench.url, 0, "a server")
    with cluster(3) as nodes:
        figures += _compared(bench, nodes, url_of(nodes), 6, "each of 3 shards")
    return figures


def _compared(bench: Bench, nodes: Sequence[Any], url: str, partitions: int, where: str) -> list[Figure]:
    counts = [max(least, int(number * bench.scale)) for number, least in ((FEW, 2), (MANY, 4))]
    few, many = (_watched(bench, nodes, url, partitions, number) for number in counts)
    names = (
        (f"an idle worker process: connections to {where}", ""),
        (f"an idle worker process: calls of {where}", "/s"),
        (f"an idle worker process: time of {where}", "us/s"),
        (f"messages for a job to idle workers, {where}", ""),
    )
    return [
        Figure(name, unit, ours, base, f"with {counts[0]} processes", None)
        for (name, unit), ours, base in zip(names, many, few, strict=True)
    ]


def _watched(bench: Bench, nodes: Sequence[Any], url: str, partitions: int, processes: int) -> _Idle:
    seconds, jobs = bench.seconds(20, 1), bench.count(50)
    for node in nodes:
        node.flushall()
    names = [f"default/{number}" for number in range(partitions)] or ["default"]
    more = {"BENCH_PARTITIONS": str(partitions)} if partitions else {}
    app = f"benchmarks.tasks:{'sharded' if partitions else 'lw'}"
    with bench_app(url, partitions) as (lw, nothing):
        queue = lw.queue()
        nothing.enqueue_many([(number,) for number in range(100)])  # all connections of this app are open from now on
        alone, (_, quiet) = _connections(nodes), _spent(nodes, seconds)
        with worker(url, "default", app, more, processes):
            while queue.status().ready or sum(map(_asleep, names, [nodes] * len(names))) < processes * len(names):
                time.sleep(POLL)
            time.sleep(bench.seconds(2, 0.2))  # what happens once after the start is over
            each = processes * len(nodes)
            opened = (_connections(nodes) - alone) / each
            calls, used = _spent(nodes, seconds)
            sent = _count(nodes, "publish", "spublish")
            for number in range(jobs):
                done = queue.status().succeeded
                nothing.enqueue(number)
                while queue.status().succeeded == done:
                    time.sleep(POLL)
                time.sleep(POLL)  # the worker is asleep again
            messages = (_count(nodes, "publish", "spublish") - sent) / jobs
    return _Idle(opened, calls / each, (used - quiet) * 1e6 / each, messages)


def _spent(nodes: Sequence[Any], seconds: float) -> tuple[float, float]:
    """Scripts called, and seconds of processor time spent, in each of the next seconds."""
    calls, used, began = _count(nodes, "evalsha"), sum(map(cpu, nodes)), perf_counter()
    time.sleep(seconds)
    passed = perf_counter() - began
    return (_count(nodes, "evalsha") - calls) / passed, (sum(map(cpu, nodes)) - used) / passed


def _asleep(name: str, nodes: Sequence[Any]) -> int:
    """How many worker processes sleep on a queue."""
    for node in nodes:
        try:
            return int(node.zcard(QueueKeys("lw", name).idle_workers))
        except redis.exceptions.MovedError:
            continue
    return 0


def _connections(nodes: Sequence[Any]) -> int:
    return sum(len(node.client_list()) for node in nodes)


def _count(nodes: Sequence[Any], *commands: str) -> int:
    """How often scripts and clients used these commands."""
    found = [node.info("commandstats") for node in nodes]
    return sum(int(stats.get(f"cmdstat_{name}", {"calls": 0})["calls"]) for stats in found for name in commands)
