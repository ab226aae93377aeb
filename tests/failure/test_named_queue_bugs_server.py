"""Bugs of other queues by their names, as they show on the server: calls without a bound, and keys that grow."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
import redis

from lockwork import Lockwork
from lockwork.protocol.dead import dead
from lockwork.protocol.dead.dead import Filter
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import browse, enqueue, leases, record_header
from lockwork.protocol.queue import job_control as control
from lockwork.protocol.queue.enqueue import NewJob
from lockwork.protocol.queue.leases import Leased, Outcome
from lockwork.protocol.queue.record_header import JobLimits
from lockwork.runtime.embedded import Embedded
from processes import until, worker

KEYS = QueueKeys("lw", "default")
SESSION = "host/1/a"
WINDOW = 600_000
MANY = 20_000
"""More than Lua's `unpack` takes."""
PLAIN = record_header.head(1, 4) + b'["work",[]]'
KEYED = record_header.head(1, 4, "k", "g", JobLimits(at_once=5)) + b'["work",[]]'


@pytest.fixture
def queue(lw: Lockwork) -> Iterator[Lockwork]:
    """An app with one worker session that ends only at the end of the test."""
    lw.runtime.run(leases.beat(KEYS, {SESSION: True}, 600_000, 5))
    yield lw
    lw.runtime.run(leases.recover(KEYS, SESSION, WINDOW, gone=True))


def fill(lw: Lockwork, count: int, record: bytes = PLAIN, delay: int = 0) -> None:
    lw.runtime.run(enqueue.push(KEYS, [NewJob(f"j{number:05}", record, delay) for number in range(count)]))


def leased(lw: Lockwork, count: int) -> list[Leased]:
    """Lease `count` jobs, in several calls if needed."""
    jobs: list[Leased] = []
    while len(jobs) < count:
        batch = lw.runtime.run(leases.reserve(KEYS, SESSION, count - len(jobs), f"r{len(jobs)}", ""))
        assert batch.jobs
        jobs += batch.jobs
    return jobs


def test_dramatiq_258_more_jobs_than_lua_unpacks(queue: Lockwork) -> None:
    """dramatiq#258: giving back more than some thousand messages of a dead worker failed, each time again."""
    run = queue.runtime.run
    fill(queue, MANY)
    leased(queue, MANY)
    assert run(leases.recover(KEYS, SESSION, WINDOW, gone=True, counted=False)) == MANY
    run(leases.beat(KEYS, {SESSION: True}, 600_000, 5))
    held = leased(queue, MANY)
    settled = run(leases.settle(KEYS, SESSION, [Outcome(job.id, job.token, "d", b"{}") for job in held], WINDOW))
    assert all(settled)
    assert run(dead.retry(KEYS, Filter(), "one", None, anew=True)) == MANY
    leased(queue, MANY)
    assert run(leases.recover(KEYS, SESSION, WINDOW, gone=True, counted=False)) == MANY
    assert run(browse.clear(KEYS, "two", WINDOW)) == MANY
    assert queue.queue().status().ready == 0


@pytest.mark.parametrize("record", [PLAIN, KEYED], ids=["plain", "with a key"])
def test_laravel_one_call_moves_a_bounded_number_of_due_jobs(
    queue: Lockwork, admin: redis.Redis, record: bytes
) -> None:
    """Laravel moves all jobs that are due in one script; docket PR#463: a long list stopped the server for 37 ms."""
    fill(queue, 5000, record, 1)
    until(lambda: admin.zcount(KEYS.due, "-inf", time.time() * 1000 - 1) == 5000, "all are due")
    assert len(leased(queue, 1)) == 1
    assert admin.zcard(KEYS.due) >= 4900
    ids = [job.id for job in queue.runtime.run(leases.reserve(KEYS, SESSION, 100, "more", "")).jobs]
    assert len(ids) == (100 if record == PLAIN else 0)


def test_bull_1416_a_late_worker_writes_no_reason(queue: Lockwork, admin: redis.Redis) -> None:
    """bull#1416: a worker that had lost its job wrote its failure into the job of the new owner."""
    run = queue.runtime.run
    fill(queue, 1)
    (old,) = leased(queue, 1)
    run(leases.recover(KEYS, SESSION, WINDOW, gone=True))
    run(leases.beat(KEYS, {"host/2/b": True}, 600_000, 5))
    (new,) = run(leases.reserve(KEYS, "host/2/b", 1, "r", "")).jobs
    kinds: tuple[Literal["s", "r", "d", "g", "z", "c"], ...] = ("s", "r", "d", "g", "z", "c")
    for kind in kinds:
        for session in (SESSION, "host/2/b"):
            ended = Outcome(old.id, old.token, kind, b'{"type":"Late","message":""}')
            assert run(leases.settle(KEYS, session, [ended], WINDOW)) == [False]
            assert run(control.note(KEYS, session, old, "", b"1", 1000)) == 0
    assert not admin.hlen(KEYS.errors)
    assert not admin.hlen(KEYS.results[0])
    assert not admin.hlen(KEYS.job_notes)
    assert run(leases.settle(KEYS, "host/2/b", [Outcome(new.id, new.token, "s", b"1")], WINDOW)) == [True]
    assert run(leases.recover(KEYS, "host/2/b", WINDOW, gone=True)) == 0


def test_rq_2466_a_job_that_has_finished_is_not_abandoned(queue: Lockwork) -> None:
    """rq#2424, rq#2466, rq#1854: a job was finished, and then counted as lost with its worker, and run again."""
    run = queue.runtime.run
    fill(queue, 3)
    held = leased(queue, 3)
    run(leases.settle(KEYS, SESSION, [Outcome(held[0].id, held[0].token, "s", b"1")], WINDOW))
    assert run(leases.recover(KEYS, SESSION, WINDOW, gone=True)) == 2
    assert queue.job(held[0].id).result(1) == 1
    # a repeated settle call changes nothing
    assert run(leases.settle(KEYS, SESSION, [Outcome(held[0].id, held[0].token, "d", b"{}")], WINDOW)) == [False]
    status = queue.queue().status()
    assert (status.succeeded, status.ready, status.dead) == (1, 2, 0)


def _sizes(client: redis.Redis) -> dict[str, int]:
    """Return the number of entries of each key, except the statistics and keys that expire."""
    sizes = {}
    for key in client.scan_iter(match="lw:*", count=1000):
        name = key.decode()
        if name == KEYS.stats or client.ttl(key) > 0:
            continue
        type_name = client.type(key)
        kind = type_name.decode() if isinstance(type_name, bytes) else type_name
        sizes[name] = {
            "hash": client.hlen, "list": client.llen, "zset": client.zcard, "set": client.scard, "string": client.strlen
        }[kind](key)  # fmt: skip
    return sizes


def test_bullmq_1180_no_key_grows_with_finished_jobs(
    spoiled: Embedded, spoil: redis.Redis, apps: Path, tmp_path: Path
) -> None:
    """celery#6089, #7801, #5000, bullmq#1180, #2734, horizon#1168, frappe#20225, taskiq streams (761,008 entries were
    left in safe-decoder-service#329), python-redis-lock#15: what jobs leave behind filled the server."""
    with Lockwork(spoiled.url) as lw, worker("named:lw", url=spoiled.url, folder=apps):
        mark = lw.task(name="mark", retries=3)(_of_path)
        kinds = [
            mark,
            mark.options(delay="1ms"),
            mark.options(expires="1h"),
            mark.options(key="k"),
            mark.options(group="g"),
            mark.options(key="k", group="g", tags=["a"]),
            mark.options(priority="high", result_ttl="1s"),
        ]
        sizes = []
        for _ in range(3):
            for task in kinds:
                task.enqueue_many([(str(tmp_path / "history"),)] * 60)
                cancelled = task.options(delay="30m").enqueue(str(tmp_path / "history"))
                assert cancelled.cancel()
            until(lambda: _done(lw), "all ran")
            until(
                lambda: not spoil.exists(KEYS.long_results) or not spoil.hlen(KEYS.long_results), "results expired", 10
            )
            sizes.append(_sizes(spoil))
    for size in sizes:
        size.pop(KEYS.idle_workers, None)
        size.pop(KEYS.groups, None)
        # a bounded number of ended jobs is kept: tests/jobs
        size.pop(KEYS.history, None)
        size.pop(KEYS.history_order, None)
        size.pop("lw:{lockwork}:index:queues", None)  # another thread adds the queue's name
    assert sizes[0] == sizes[1] == sizes[2]
    assert set(sizes[0]) <= {KEYS.workers}
    assert {name[:1] for name in spoil.hkeys(KEYS.groups)} <= {b"#"}, "only the last number is kept"


def _of_path(path: str) -> int: ...  # type: ignore[empty-body]


def _done(lw: Lockwork) -> bool:
    status = lw.queue().status()
    return status.ready + status.scheduled + status.running == 0
