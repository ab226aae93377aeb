"""What a job costs the server while very many others wait, are due later, or are dead: it must not matter."""

from __future__ import annotations

import redis

from benchmarks.figures import Bench, Figure
from lockwork import Lockwork
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import enqueue, leases, record_header
from lockwork.protocol.queue.enqueue import NewJob
from lockwork.protocol.queue.leases import Outcome

FEW, MANY = 1_000, 5_000_000
BATCH, ROUNDS, TURNS = 500, 40, 6
SESSION = "host/1/bench"
_WINDOW_MS = 3_600_000
_RECORD = record_header.head(1, 4) + b'["nothing",[42]]'
_FIRST = record_header.head(0, 4) + b'["nothing",[42]]'
"""Of the highest priority, so that it comes before those that wait."""


def flat(bench: Bench) -> list[Figure]:
    """Enqueue, lease and settle jobs in a queue that holds few others, and in one that holds very many, by turns."""
    figures = []
    many, rounds = max(FEW, int(MANY * bench.scale)), max(2, int(ROUNDS * bench.scale))
    small, large = QueueKeys("lw", "small"), QueueKeys("lw", "large")
    with Lockwork(bench.url) as lw, redis.Redis.from_url(bench.url) as client:
        for place in ("waiting", "delayed", "dead"):
            client.flushall()
            for queue, count in ((small, FEW), (large, many)):
                lw.runtime.run(leases.beat(queue, {SESSION: True}, 3_600_000, 5.0))
                _fill(client, queue, place, count)
            costs = [
                (cost_of_a_job(lw, client, small, turn, rounds), cost_of_a_job(lw, client, large, turn, rounds))
                for turn in range(TURNS)
            ]
            # the first turn pays for memory that the others find ready
            few, lots = map(min, zip(*costs[1:], strict=True))
            figures.append(
                Figure(
                    f"server time per job beside {many:,} {place} ones",
                    "us",
                    lots,
                    few,
                    f"beside {FEW:,}",
                    1.5,
                    goal_is_ratio=True,
                    less_is_better=True,
                )
            )
        client.flushall()
    return figures


def cost_of_a_job(lw: Lockwork, client: redis.Redis, queue: QueueKeys, turn: float, rounds: int) -> float:
    """Microseconds of the server's CPU per job."""
    run = lw.runtime.run
    used = processor_time(client)
    for number in range(rounds):
        name = f"b{turn}-{number}"
        run(enqueue.push(queue, [NewJob(f"{name}-{at}", _FIRST) for at in range(BATCH)]))
        leased = run(leases.reserve(queue, SESSION, BATCH, name, "")).jobs
        assert len(leased) == BATCH
        run(leases.settle(queue, SESSION, [Outcome(job.id, job.token, "s") for job in leased], _WINDOW_MS))
    return (processor_time(client) - used) / (rounds * BATCH) * 1e6


def _fill(client: redis.Redis, queue: QueueKeys, place: str, count: int) -> None:
    """Put jobs there as the scripts do, without their checks: five millions would take minutes."""
    at_ms = int(float(client.time()[0]) * 1000)
    for begin in range(0, count, 10_000):
        ids = [f"j{number:015}" for number in range(begin, min(begin + 10_000, count))]
        pipeline = client.pipeline(transaction=False)
        pipeline.hset(queue.jobs, mapping=dict.fromkeys(ids, _RECORD))
        if place == "waiting":
            pipeline.rpush(queue.ready[1], *ids)
        elif place == "delayed":
            pipeline.zadd(queue.due, {id: at_ms + 86_400_000 + number for number, id in enumerate(ids, begin)})
        else:
            pipeline.zadd(queue.dead, {id: at_ms + number for number, id in enumerate(ids, begin)})
            pipeline.hset(queue.errors, mapping=dict.fromkeys(ids, b'{"type":"E","message":"m"}'))
            pipeline.hset(queue.tries, mapping=dict.fromkeys(ids, b"4"))
        pipeline.execute()


def processor_time(client: redis.Redis) -> float:
    """Return the processor time of the server's main thread, in seconds."""
    found = client.info("cpu")
    return float(found["used_cpu_user_main_thread"]) + float(found["used_cpu_sys_main_thread"])
