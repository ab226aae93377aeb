"""What it costs a process to keep many locks alive."""

from __future__ import annotations

import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor
from typing import Any, NamedTuple

import redis

from benchmarks.figures import Bench, Figure
from lockwork import Lockwork

LEASE = 15
BATCH = 100
_SETTLE = 0.5


class Kept(NamedTuple):
    """What keeping took: shares of a core in the holder and in the server, and renewals per call."""

    holder: float
    server: float
    renewals: float


def many_locks(bench: Bench) -> list[Figure]:
    """One process holds ten thousand locks and does nothing else; its engine renews them."""
    count, lease = bench.count(10_000), bench.seconds(LEASE, 4)
    with ProcessPoolExecutor(1, multiprocessing.get_context("forkserver")) as pool:
        kept = pool.submit(_keep, bench.url, count, lease, lease * 4 / 3).result()
    with redis.Redis.from_url(bench.url) as client:
        floor = _floor(client, count, lease)
    name = f"{count:,} locks held by one process"
    bare = "pipelines of 100 PEXPIRE"
    return [
        Figure(f"{name}: its CPU", "% of a core", kept.holder, floor.holder, bare, 5, less_is_better=True),
        Figure(f"{name}: the server's CPU", "% of a core", kept.server, floor.server, bare, None, less_is_better=True),
        Figure(f"{name}: renewals per call", "", kept.renewals, BATCH, "a hundred", BATCH),
    ]


def _keep(url: str, count: int, lease: float, seconds: float) -> Kept:
    with Lockwork(url, lock_lease=lease) as lw, redis.Redis.from_url(url) as client:
        grants = [lw.lock(f"kept-{number}").acquire() for number in range(count)]
        time.sleep(_SETTLE)
        client.config_resetstat()
        server, holder, began = _server_time(client), time.process_time(), time.monotonic()
        time.sleep(seconds)
        holder, took = time.process_time() - holder, time.monotonic() - began
        server = _server_time(client) - server
        stats: dict[str, Any] = client.info("commandstats")
        assert not any(grant.lost for grant in grants)
        for grant in grants:
            grant.release()
    # nothing else runs these: a script per call, and one HSET in it per renewal
    renewals = stats["cmdstat_hset"]["calls"] / stats["cmdstat_evalsha"]["calls"]
    return Kept(100 * holder / took, 100 * server / took, renewals)


def _floor(client: redis.Redis, count: int, lease: float) -> Kept:
    """Push back the expiry of as many keys, as often as every third of a lease."""
    for number in range(count):
        client.set(f"bare-{number}", "token", px=LEASE * 1000)
    server, holder = _server_time(client), time.process_time()
    for at in range(0, count, BATCH):
        pipeline = client.pipeline(transaction=False)
        for number in range(at, min(at + BATCH, count)):
            pipeline.pexpire(f"bare-{number}", LEASE * 1000)
        pipeline.execute()
    every = lease / 3
    holder = time.process_time() - holder
    return Kept(100 * holder / every, 100 * (_server_time(client) - server) / every, BATCH)


def _server_time(client: redis.Redis) -> float:
    used: dict[str, float] = client.info("cpu")
    return used["used_cpu_user"] + used["used_cpu_sys"]
