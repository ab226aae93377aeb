"""Calls to the server read at most about a megabyte of jobs, for any number and size of jobs."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from commandstats import command_calls
from lockwork import Lockwork
from lockwork.protocol.effects import Protocol
from lockwork.protocol.flows import flows
from lockwork.protocol.flows.flows import FlowJob
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import enqueue, job_control, leases, record_header
from lockwork.protocol.queue.enqueue import NewJob
from lockwork.protocol.queue.leases import Leased, Outcome
from processes import until

SESSION = "host/1/bounds"
LARGE = 1 << 20
MANY = 20
FEW = 2
"""Number of large records that one call may read: each step of the call may read one."""


@pytest.fixture
def queue(lw: Lockwork, admin: redis.Redis) -> Iterator[QueueKeys]:
    """A queue with a worker session."""
    keys = QueueKeys("lw", "bounds")
    lw.runtime.run(leases.beat(keys, {SESSION: True}, 60_000, 1.0))
    yield keys
    admin.delete(keys.run(SESSION))


def fill(lw: Lockwork, queue: QueueKeys, *, delay: int = 0, group: str = "", expires: int | None = None) -> list[str]:
    """Enqueue many large jobs; return their IDs."""
    record = record_header.head(1, 5, "", group) + b"x" * LARGE
    ids = [f"{number:05}" for number in range(MANY)]
    lw.runtime.run(enqueue.push(queue, [NewJob(id, record, delay) for id in ids], expires_ms=expires))
    return ids


def lease(lw: Lockwork, queue: QueueKeys, want: int, request: str = "r") -> list[Leased]:
    """Make one call."""
    return lw.runtime.run(leases.reserve(queue, SESSION, want, request, "")).jobs


def lease_all(lw: Lockwork, queue: QueueKeys) -> list[Leased]:
    """Lease until no jobs remain."""
    found: list[Leased] = []
    for number in itertools.count():
        some = lease(lw, queue, MANY, str(number))
        if not some:
            return found
        assert len(some) <= FEW
        found += some
    raise AssertionError


@pytest.mark.parametrize("delay", [0, -1], ids=["ready", "due"])
@pytest.mark.parametrize("group", ["", "g"], ids=["plain", "grouped"])
def test_large_jobs_are_leased_by_many_calls_in_order(lw: Lockwork, queue: QueueKeys, delay: int, group: str) -> None:
    ids = fill(lw, queue, delay=delay, group=group)
    assert [job.id for job in lease_all(lw, queue)] == ids


def test_small_jobs_behind_large_ones_are_leased_together(lw: Lockwork, queue: QueueKeys) -> None:
    fill(lw, queue)
    small = [NewJob(f"s{number}", record_header.head(1, 5) + b"x") for number in range(100)]
    lw.runtime.run(enqueue.push(queue, small))
    for number in range(MANY):
        lease(lw, queue, 1, str(number))
    assert [job.id for job in lease(lw, queue, 200, "s")] == [job.id for job in small]


def test_lease_of_one_job_moves_few_large_due_jobs(lw: Lockwork, queue: QueueKeys, admin: redis.Redis) -> None:
    fill(lw, queue, delay=-1)
    assert len(lease(lw, queue, 1)) == 1
    assert admin.zcard(queue.due) >= MANY - FEW


def test_job_notes_count_like_records(lw: Lockwork, queue: QueueKeys) -> None:
    record = record_header.head(1, 5) + b"x"
    lw.runtime.run(enqueue.push(queue, [NewJob(f"{number:05}", record) for number in range(MANY)]))
    held = lease(lw, queue, MANY)
    for job in held:
        value = b'"' + b"x" * LARGE + b'"'
        assert lw.runtime.run(job_control.note(queue, SESSION, job, "step", value, 2 * LARGE)) == 1
    lw.runtime.run(leases.settle(queue, SESSION, [Outcome(job.id, job.token, "r") for job in held], 60_000))
    again = lease_all(lw, queue)
    assert [len(job.note) > LARGE // 2 for job in again] == [True] * MANY


def test_large_jobs_of_a_dead_session_come_back_by_many_calls(
    lw: Lockwork, queue: QueueKeys, admin: redis.Redis
) -> None:
    ids = fill(lw, queue)
    lease_all(lw, queue)
    admin.config_resetstat()
    assert lw.runtime.run(leases.recover(queue, SESSION, 60_000, gone=True)) == MANY
    assert calls(admin) >= MANY / FEW
    assert not waiting(admin, queue)
    assert admin.zcard(queue.suspects) == len(ids)


def test_large_jobs_are_given_back_by_many_calls(lw: Lockwork, queue: QueueKeys, admin: redis.Redis) -> None:
    ids = fill(lw, queue)
    lease_all(lw, queue)
    admin.config_resetstat()
    assert lw.runtime.run(leases.recover(queue, SESSION, 60_000, gone=True, counted=False)) == MANY
    assert calls(admin) >= MANY / FEW
    assert waiting(admin, queue) == ids


def test_large_jobs_expire_by_many_calls(lw: Lockwork, queue: QueueKeys, admin: redis.Redis) -> None:
    fill(lw, queue, expires=-1)
    admin.config_resetstat()
    assert lease(lw, queue, MANY) == []
    assert calls(admin) >= MANY / FEW
    assert admin.hget(queue.stats, "expired") == str(MANY).encode()


def test_large_results_are_settled_by_many_calls(lw: Lockwork, queue: QueueKeys, admin: redis.Redis) -> None:
    record = record_header.head(1, 5) + b"x"
    lw.runtime.run(enqueue.push(queue, [NewJob(f"{number:05}", record) for number in range(MANY)]))
    held = lease(lw, queue, MANY)
    admin.config_resetstat()
    done = [Outcome(job.id, job.token, "s", b"x" * LARGE) for job in held]
    assert lw.runtime.run(leases.settle(queue, SESSION, done, 60_000)) == [True] * MANY
    assert calls(admin) >= MANY / FEW


def test_large_jobs_are_enqueued_by_many_calls(lw: Lockwork, queue: QueueKeys, admin: redis.Redis) -> None:
    admin.config_resetstat()
    ids = fill(lw, queue)
    assert calls(admin) >= MANY / FEW
    assert waiting(admin, queue) == ids


def test_empty_queue_counts_no_bytes(lw: Lockwork, queue: QueueKeys, admin: redis.Redis) -> None:
    lw.runtime.run(enqueue.push(queue, [NewJob("1", record_header.head(1, 5) + b"x" * 5000)]))
    assert admin.hexists(queue.stats, "heavy")
    (job,) = lease(lw, queue, 1)
    lw.runtime.run(leases.settle(queue, SESSION, [Outcome(job.id, job.token, "s")], 60_000))
    lw.runtime.run(leases.reserve(queue, SESSION, 1, "2", "lw:wake:nobody"))
    assert not admin.hexists(queue.stats, "heavy")


def test_lease_does_not_wait_for_flows_to_be_forgotten(lw: Lockwork, queue: QueueKeys, admin: redis.Redis) -> None:
    record, count = record_header.head(1, 5) + b"x", 30
    for number in range(count):
        lw.runtime.run(flows.push(queue, f"f{number}", [FlowJob(record)], None, 1))
    done = [Outcome(job.id, job.token, "s") for job in lease(lw, queue, count)]
    lw.runtime.run(leases.settle(queue, SESSION, done, 1))
    until(lambda: admin.zcount(queue.expiry, -(admin.time()[0] * 1000), 0) == count, "the flows have expired")
    lw.runtime.run(enqueue.push(queue, [NewJob("1", record)]))
    admin.config_resetstat()
    assert [job.id for job in lease(lw, queue, 1, "r")] == ["1"]
    assert calls(admin) == 1
    assert admin.hlen(queue.flows) > 0
    assert lease(lw, queue, 1, "s") == []
    assert admin.hlen(queue.flows) == 0, "who has nothing else to do forgets them"


def test_job_keeps_a_few_hundred_watchers(lw: Lockwork, queue: QueueKeys, admin: redis.Redis) -> None:
    lw.runtime.run(enqueue.push(queue, [NewJob("1", record_header.head(1, 5) + b"x", 60_000)]))
    asking = [f"lw:wake:asker-{number:05}" for number in range(2000)]
    for channel in asking:
        lw.runtime.run(leases.job_state(queue, "1", channel))
    found: Any = admin.hget(queue.watch, "1")
    channels = found.decode().split()
    assert 100 < len(channels) < 1000
    assert channels == asking[-len(channels) :]


def calls(admin: redis.Redis) -> int:
    """Return the number of script calls since the statistics were reset."""
    return command_calls(admin, "eval", "evalsha")


def waiting(admin: redis.Redis, queue: QueueKeys) -> list[str]:
    """Return the ready jobs in their order."""
    return [str(id, "ascii") for id in admin.lrange(queue.ready[1], 0, -1) if isinstance(id, bytes)]


def test_call_cancels_a_bounded_part_of_a_flow(lw: Lockwork, admin: redis.Redis, queue: QueueKeys) -> None:
    """A call that cancels 500 jobs blocked the server for 22 ms."""
    record = record_header.head(1, 5) + b'["work",[]]'
    lw.runtime.run(flows.push(queue, "f", [FlowJob(record), *(FlowJob(record, (1,)) for _ in range(1000))], None))
    ending = flows.cancel(queue, "f")

    def one_call() -> Protocol[Any]:
        return (yield next(ending))

    lw.runtime.run(one_call())
    assert admin.hlen(queue.jobs) > 1000 - 200
    lw.runtime.run(flows.cancel(queue, "f"))
    assert admin.hlen(queue.jobs) == 0
