"""What a job or a lock costs the server beside very many queues, worker processes or locks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter

import redis

from benchmarks.figures import Bench, Figure
from benchmarks.listing import page
from benchmarks.standing import SESSION, cost_of_a_job, processor_time
from lockwork import Lockwork
from lockwork.doctor.findings import findings
from lockwork.protocol.effects import script_call
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import leases
from lockwork.telemetry.cluster import ClusterFamilies

QUEUES, PROCESSES, LOCKS = 10_000, 10_000, 1_000_000
TURNS, JOB_ROUNDS, PAIRS = 5, 20, 2_000
_BATCH = 500
_LEASE_MS = 3_600_000


def growth(bench: Bench) -> list[Figure]:
    """Measure beside few, add many, and measure again."""
    with redis.Redis.from_url(bench.url) as client, Lockwork(bench.url) as lw:
        return [*_queues(bench, lw, client), *_processes(bench, lw, client), *_locks(bench, lw, client)]


def _queues(bench: Bench, lw: Lockwork, client: redis.Redis) -> Iterator[Figure]:
    with _empty(client):
        own, many = QueueKeys("lw", "own"), bench.count(QUEUES)
        _join(lw, own, [SESSION])
        send = lw.task(name="send", queue="own")(_nothing)
        send.enqueue()
        lists = {"lockwork status": lambda: findings(lw), "a scrape": lambda: ClusterFamilies(lw.runtime, "lw").read(),
                 "page /queues": page("/queues", bench.url)}  # fmt: skip
        job, times = _job(bench, lw, client, own), {name: _ms(read) for name, read in lists.items()}
        for number in range(many):
            send.options(queue=f"queue{number}").enqueue()
        yield _figure(f"a job beside {many:,} queues", _job(bench, lw, client, own), job)
        for name, read in lists.items():
            yield _list_figure(f"{name} of {many:,} queues", _ms(read), times[name])


def _processes(bench: Bench, lw: Lockwork, client: redis.Redis) -> Iterator[Figure]:
    with _empty(client):
        own, many = QueueKeys("lw", "own"), bench.count(PROCESSES)
        _join(lw, own, [SESSION])
        workers = lw.queue("own").workers
        job, few = _job(bench, lw, client, own), _ms(workers)
        sessions = [f"host{number}/1/x" for number in range(many)]
        for start in range(0, many, _BATCH):
            _join(lw, own, sessions[start : start + _BATCH])
        yield _figure(f"a job beside {many:,} worker processes", _job(bench, lw, client, own), job)
        yield _list_figure(f"workers of one queue, {many:,} processes", _ms(workers), few)


def _locks(bench: Bench, lw: Lockwork, client: redis.Redis) -> Iterator[Figure]:
    with _empty(client):
        many, few = bench.count(LOCKS), _pair(bench, lw, client)
        for start in range(0, many, _BATCH):
            with client.pipeline(transaction=False) as pipe:
                for number in range(start, min(start + _BATCH, many)):
                    args = (f"p:{number}", f"n{number}", _LEASE_MS, 4_000, 0, "")
                    call = script_call("locks/acquire", f"lw:{{lock:name{number}}}", args)
                    pipe.evalsha(call.script.sha, 1, *call.keys, *call.args)
                pipe.execute()
        yield _figure(f"a lock pair beside {many:,} held locks", _pair(bench, lw, client), few)


@contextmanager
def _empty(client: redis.Redis) -> Iterator[None]:
    client.flushall()
    yield
    client.flushall()


def _nothing() -> None: ...


def _join(lw: Lockwork, queue: QueueKeys, sessions: list[str]) -> None:
    lw.runtime.run(leases.beat(queue, dict.fromkeys(sessions, True), _LEASE_MS, 5.0))


def _job(bench: Bench, lw: Lockwork, client: redis.Redis, queue: QueueKeys) -> float:
    """Microseconds of the server to enqueue, lease and settle a job, in batches."""
    rounds = max(2, int(JOB_ROUNDS * bench.scale))
    return min(cost_of_a_job(lw, client, queue, perf_counter(), rounds) for _ in range(TURNS))


def _pair(bench: Bench, lw: Lockwork, client: redis.Redis) -> float:
    """Microseconds of the server to acquire and release a lock."""
    lock, pairs = lw.lock("pair"), bench.count(PAIRS)

    def measure() -> float:
        used = processor_time(client)
        for _ in range(pairs):
            lock.acquire()
            lock.release()
        return (processor_time(client) - used) / pairs * 1e6

    return min(measure() for _ in range(TURNS))


def _ms(read: Callable[[], object]) -> float:
    times = []
    for _ in range(3):
        began = perf_counter()
        read()
        times.append(1000 * (perf_counter() - began))
    return min(times)


def _figure(name: str, ours: float, few: float) -> Figure:
    return Figure(f"server time of {name}", "us", ours, few, "beside none", 1.5, True, True)


def _list_figure(name: str, ours: float, few: float) -> Figure:
    return Figure(name, "ms", ours, few, "of one", None, less_is_better=True)
