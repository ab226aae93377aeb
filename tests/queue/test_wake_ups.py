"""Who is woken for a job: a worker that sleeps, and not one that woke up by itself and found something to do."""

from __future__ import annotations

import redis

from lockwork import Lockwork
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queues import heads, jobs, pushing
from lockwork.protocol.queues.pushing import NewJob
from model.bench import Bench
from processes import until
from simulation.server import Build, Server

KEYS = QueueKeys("lw", "default")
CHANNELS = {"host/1/a": "lw:wake:a", "host/2/b": "lw:wake:b"}


def test_a_worker_that_found_a_due_job_does_not_count_as_asleep(lw: Lockwork, admin: redis.Redis) -> None:
    """The next job would wake it, which has no place left, and wait for the others' look after five seconds."""
    run = lw.runtime.run
    run(jobs.beat(KEYS, dict.fromkeys(CHANNELS, True), 60_000, 5))
    with admin.pubsub() as told:  # type: ignore[no-untyped-call]
        told.subscribe(*CHANNELS.values())
        until(lambda: all(count for _, count in admin.pubsub_numsub(*CHANNELS.values())), "both hear")
        run(pushing.push(KEYS, [NewJob("later", heads.head(1, 4) + b'["work",[]]', 1500)]))
        for session in ("host/2/b", "host/1/a"):
            assert not run(jobs.reserve(KEYS, session, 1, "r1", CHANNELS[session])).jobs
        until(lambda: admin.zcount(KEYS.due, 0, admin.time()[0] * 1000) == 1, "it is due")
        assert len(run(jobs.reserve(KEYS, "host/1/a", 1, "r2", CHANNELS["host/1/a"])).jobs) == 1
        assert b"lw:wake:a" not in admin.zrange(KEYS.idle, 0, -1)
    for session in CHANNELS:
        run(jobs.recover(KEYS, session, 60_000, gone=True))


def test_workers_that_were_killed_in_their_sleep_do_not_pile_up(lw: Lockwork, admin: redis.Redis) -> None:
    """Who is woken first would be one of them, and a hundred of them for each job."""
    run, seconds = lw.runtime.run, admin.time()[0]
    admin.zadd(KEYS.idle, {f"lw:wake:dead-{at}": (seconds - 70) * 1e6 for at in range(300)})
    admin.zadd(KEYS.idle, {"lw:wake:b": (seconds - 4) * 1e6})
    run(jobs.beat(KEYS, {"host/1/a": True}, 60_000, 5))
    assert not run(jobs.reserve(KEYS, "host/1/a", 1, "r1", "lw:wake:a")).jobs
    assert admin.zrange(KEYS.idle, 0, -1) == [b"lw:wake:b", b"lw:wake:a"]
    run(jobs.recover(KEYS, "host/1/a", 60_000, gone=True))


def test_a_batch_that_is_due_in_part_wakes_one_more_for_the_rest(simulated: Server) -> None:
    """Who has taken the job that may run now may have no place left, and nobody else knows when the next is due."""
    bench, queue = Bench(simulated, Build()), QueueKeys("sim", "q")
    bench.run(jobs.beat(queue, dict.fromkeys(CHANNELS, True), 60_000, 1.0))
    for session, channel in CHANNELS.items():
        bench.hear(channel)
        assert not bench.run(jobs.reserve(queue, session, 1, "r1", channel)).jobs
    record = heads.head(1, 4) + b'["work",[]]'
    bench.run(pushing.push(queue, [NewJob("later", record, 200), NewJob("now", record)]))
    assert sorted(bench.messages) == [(channel, queue.jobs) for channel in CHANNELS.values()]
