"""Wake-ups go to idle workers, and not to a worker that has fetched a job meanwhile."""

from __future__ import annotations

import pytest
import redis

from lockwork import Lockwork
from lockwork.protocol.effects import Argument
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import browse, enqueue, leases, record_header
from lockwork.protocol.queue import limits as queue_limits
from lockwork.protocol.queue.enqueue import NewJob
from models.bench import CHANNEL, Bench
from processes import until
from simulator.server import Build, Server

KEYS = QueueKeys("lw", "default")
WINDOW_MS = 60_000
CHANNELS = {"host/1/a": "lw:wake:a", "host/2/b": "lw:wake:b"}


def test_worker_that_fetched_a_due_job_is_not_idle(lw: Lockwork, admin: redis.Redis) -> None:
    """Otherwise, the next job would wake this worker, which has no free slot, and wait for a poll."""
    run = lw.runtime.run
    run(leases.beat(KEYS, dict.fromkeys(CHANNELS, True), 60_000, 5))
    with admin.pubsub() as messages:  # type: ignore[no-untyped-call]
        messages.subscribe(*CHANNELS.values())
        until(lambda: all(count for _, count in admin.pubsub_numsub(*CHANNELS.values())), "both are subscribed")
        run(enqueue.push(KEYS, [NewJob("later", record_header.head(1, 4) + b'["work",[]]', 1500)]))
        for session in ("host/2/b", "host/1/a"):
            assert not run(leases.reserve(KEYS, session, 1, "r1", CHANNELS[session])).jobs
        until(lambda: admin.zcount(KEYS.due, 0, admin.time()[0] * 1000) == 1, "it is due")
        assert len(run(leases.reserve(KEYS, "host/1/a", 1, "r2", CHANNELS["host/1/a"])).jobs) == 1
        assert b"lw:wake:a" not in admin.zrange(KEYS.idle_workers, 0, -1)
    for session in CHANNELS:
        run(leases.recover(KEYS, session, 60_000, gone=True))


def test_killed_idle_workers_do_not_pile_up(lw: Lockwork, admin: redis.Redis) -> None:
    """Otherwise, wake-ups would go to dead workers first, up to a hundred for each job."""
    run, seconds = lw.runtime.run, admin.time()[0]
    admin.zadd(KEYS.idle_workers, {f"lw:wake:dead-{at}": (seconds - 70) * 1e6 for at in range(300)})
    admin.zadd(KEYS.idle_workers, {"lw:wake:b": (seconds - 4) * 1e6})
    run(leases.beat(KEYS, {"host/1/a": True}, 60_000, 5))
    assert not run(leases.reserve(KEYS, "host/1/a", 1, "r1", "lw:wake:a")).jobs
    assert admin.zrange(KEYS.idle_workers, 0, -1) == [b"lw:wake:b", b"lw:wake:a"]
    run(leases.recover(KEYS, "host/1/a", 60_000, gone=True))


def test_enqueueing_takes_out_killed_workers_although_none_serves(lw: Lockwork, admin: redis.Redis) -> None:
    """Only workers add to `idle`; each call that enqueues jobs removes up to 500 dead entries."""
    admin.zadd(KEYS.idle_workers, {f"lw:wake:dead-{at}": at for at in range(1200)})
    remaining = []
    for id in ("a", "b", "c", "d"):
        lw.runtime.run(enqueue.push(KEYS, [NewJob(id, record_header.head(1, 4) + b'["work",[]]')]))
        remaining.append(admin.zcard(KEYS.idle_workers))
    assert remaining == [700, 200, 0, 0]


def test_batch_with_delayed_jobs_wakes_a_second_worker(simulated: Server) -> None:
    """The first worker may have no free slot remaining, and then no worker would wait for the delayed job."""
    bench, queue = Bench(simulated, Build()), QueueKeys("sim", "q")
    bench.run(leases.beat(queue, dict.fromkeys(CHANNELS, True), 60_000, 1.0))
    for session, channel in CHANNELS.items():
        bench.hear(channel)
        assert not bench.run(leases.reserve(queue, session, 1, "r1", channel)).jobs
    record = record_header.head(1, 4) + b'["work",[]]'
    bench.run(enqueue.push(queue, [NewJob("later", record, 200), NewJob("now", record)]))
    assert sorted(bench.messages) == [(channel, queue.jobs) for channel in CHANNELS.values()]


@pytest.mark.parametrize("command", ["PUBLISH", "PUBSUB"])
def test_subscriber_of_all_channels_does_not_count_as_worker(simulated: Server, command: str) -> None:
    """PUBLISH also counts a tool that subscribes to every channel."""
    edits = () if command == "PUBSUB" else (("parts/publish", "has_subscriber(channel) ~= false", "true"),)
    bench, queue = Bench(simulated, Build("by PUBLISH", edits)), QueueKeys("sim", "q")
    simulated.monitor()
    bench.run(leases.beat(queue, {"host/1/a": True}, 60_000, 1.0))
    bench.hear(CHANNEL)
    for channel in ("dead-1", "dead-2", CHANNEL):
        assert not bench.run(leases.reserve(queue, "host/1/a", 1, channel, channel)).jobs
    bench.run(enqueue.push(queue, [NewJob("one", record_header.head(1, 4) + b'["work",[]]', 0)]))
    assert [channel for channel, _ in bench.messages] == ([CHANNEL] if command == "PUBSUB" else [])


@pytest.mark.parametrize("dead", [0, 120])
def test_enqueue_wakes_one_worker_per_job(simulated: Server, dead: int) -> None:
    """With many idle workers, and with many dead workers before them."""
    bench, queue = Bench(simulated, Build()), QueueKeys("sim", "q")
    bench.run(leases.beat(queue, {"host/1/a": True}, 60_000, 1.0))
    channels = [f"live-{at}" for at in range(150)]
    for channel in channels:
        bench.hear(channel)
    for channel in [*(f"dead-{at}" for at in range(dead)), *channels]:
        assert not bench.run(leases.reserve(queue, "host/1/a", 1, channel, channel)).jobs
    record = record_header.head(1, 4) + b'["work",[]]'
    bench.run(enqueue.push(queue, [NewJob(f"{at:03}", record) for at in range(150)]))
    assert [channel for channel, _ in bench.messages] == channels


def test_worker_becomes_idle_only_after_all_groups_were_checked(simulated: Server) -> None:
    """Empty groups remain after `clear`; each call removes some, and a job may wait in a later group."""
    bench, queue = Bench(simulated, Build()), QueueKeys("sim", "q")
    bench.run(leases.beat(queue, {"host/1/a": True}, 60_000, 1.0))
    bench.run(queue_limits.change(queue, {"paused": 1}))
    cleared = [NewJob(f"{at:05}", record_header.head(1, 4, "", f"g{at}") + b"body") for at in range(5000)]
    bench.run(enqueue.push(queue, cleared))
    while bench.scores(queue.due):
        bench.run(leases.reserve(queue, "host/1/a", 1000, "r1", ""))
    bench.run(browse.clear(queue, "c1", WINDOW_MS))
    bench.run(queue_limits.change(queue, {"paused": ""}))
    bench.run(enqueue.push(queue, [NewJob("last", record_header.head(1, 4, "", "other") + b"body")]))
    fetches = 0
    while not (batch := bench.run(leases.reserve(queue, "host/1/a", 1, f"s{fetches}", CHANNEL))).jobs:
        assert batch.next_due == 0, "fetch again at once"
        assert CHANNEL not in bench.scores(queue.idle_workers)
        fetches += 1
    assert [job.id for job in batch.jobs] == ["last"]
    assert 1 <= fetches < 5


@pytest.mark.parametrize("rule", [{"paused": 1}, {"concurrency": 1}, {"rate": "1/60000"}, {}])
def test_worker_becomes_idle_while_groups_are_blocked(simulated: Server, rule: dict[str, Argument]) -> None:
    """The worker does not fetch again and again in vain."""
    bench, queue = Bench(simulated, Build()), QueueKeys("sim", "q")
    bench.run(leases.beat(queue, dict.fromkeys(CHANNELS, True), 60_000, 1.0))
    limits = record_header.JobLimits(1)
    new = [NewJob(f"{at:05}", record_header.head(1, 4, "", f"g{at % 2500}", limits) + b"body") for at in range(5000)]
    bench.run(enqueue.push(queue, new))
    bench.run(queue_limits.change(queue, rule))
    for at in range(4):
        bench.run(leases.reserve(queue, "host/1/a", 1000, f"r{at}", ""))
    fetches = 0
    while (batch := bench.run(leases.reserve(queue, "host/2/b", 1, f"s{fetches}", CHANNEL))).next_due == 0:
        fetches += 1
        assert fetches < 60
    assert not batch.jobs
    assert CHANNEL in bench.scores(queue.idle_workers)
