"""Bugs of other queues with pauses, rates and limits, with the real scripts in virtual time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lockwork.protocol.effects import Argument, Call
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import enqueue, leases, record_header
from lockwork.protocol.queue import job_control as control
from lockwork.protocol.queue import limits as queue_limits
from lockwork.protocol.queue import status as queue_status
from lockwork.protocol.queue.enqueue import NewJob
from lockwork.protocol.queue.leases import Batch, Outcome
from models.bench import CHANNEL, SECOND, Bench
from simulator.server import Build, Server

QUEUE = QueueKeys("sim", "q")
ANN, BOB = "host/1/a", "host/2/b"
WINDOW_MS = 60_000


class Shop:
    """A queue and two worker sessions."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.requests = 0
        bench.run(leases.beat(QUEUE, {ANN: True, BOB: True}, 3_600_000, 1.0))

    def set(self, **rules: Argument) -> None:
        self.bench.run(queue_limits.change(QUEUE, rules))

    def push(self, count: int, delay_ms: int = 0) -> None:
        self.requests += 1
        new = [NewJob(f"{self.requests}.{at:03}", record_header.head(1, 3) + b"body", delay_ms) for at in range(count)]
        self.bench.run(enqueue.push(QUEUE, new))

    def reserve(self, session: str = ANN, want: int = 10, channel: str = "") -> Batch:
        self.requests += 1
        return self.bench.run(leases.reserve(QUEUE, session, want, f"r{self.requests}", channel))

    def settle(self, batch: Batch, kind: str = "s", session: str = ANN, delay_ms: int = 0) -> list[bool]:
        outcomes = [Outcome(job.id, job.token, kind, b"1", delay_ms) for job in batch.jobs]  # type: ignore[arg-type]
        return self.bench.run(leases.settle(QUEUE, session, outcomes, WINDOW_MS))

    def kill(self, session: str) -> None:
        self.bench.run(leases.recover(QUEUE, session, WINDOW_MS, gone=True))
        self.bench.run(leases.beat(QUEUE, {session: True}, 3_600_000, 1.0))


@pytest.fixture
def shop(url: str) -> Iterator[Shop]:
    server = Server(url)
    yield Shop(Bench(server, Build()))
    server.close()


def test_bull_1087_delayed_jobs_ran_in_a_paused_queue(shop: Shop) -> None:
    shop.push(3, delay_ms=1000)
    shop.set(paused=1)
    shop.bench.now += 2 * SECOND
    assert not shop.reserve().jobs
    shop.set(paused="")
    assert len(shop.reserve().jobs) == 3


def test_bull_247_recovered_jobs_ran_in_a_paused_queue(shop: Shop) -> None:
    shop.push(2)
    shop.reserve()
    shop.set(paused=1)
    shop.kill(ANN)
    assert not shop.reserve(BOB).jobs


def test_bullmq_1321_retried_jobs_ran_in_a_paused_queue(shop: Shop) -> None:
    shop.push(1)
    batch = shop.reserve()
    shop.settle(batch, "d")
    shop.set(paused=1)
    assert shop.bench.run(control.revive(QUEUE, batch.jobs[0].id, 0)) == "revived"
    assert not shop.reserve().jobs
    shop.set(paused="")
    assert len(shop.reserve().jobs) == 1


def test_bullmq_322_a_pause_keeps_waiting_jobs(shop: Shop) -> None:
    shop.push(5)
    for paused in (1, 1, "", 1, ""):
        shop.set(paused=paused)
    assert len(shop.reserve().jobs) == 5


def test_bull_447_a_fetch_under_way_took_a_job_after_the_pause(shop: Shop) -> None:
    """A worker that is idle since before the pause is not woken by a job."""
    shop.reserve(channel=CHANNEL)
    shop.set(paused=1)
    shop.push(1)
    assert not shop.bench.messages
    assert not shop.reserve(channel=CHANNEL).jobs
    shop.set(paused="")
    assert shop.bench.messages == [(CHANNEL, QUEUE.jobs)]


def test_bullmq_269_a_rate_limited_queue_stopped_after_the_first_period(shop: Shop) -> None:
    shop.set(rate="2/3000")
    shop.push(10)
    begun, calls = 0, 0
    while begun < 10:
        batch = shop.reserve()
        begun, calls = begun + len(batch.jobs), calls + 1
        assert calls < 30, "each refusal says when to come again, and then there is a job"
        if not batch.jobs:
            assert batch.next_due
            shop.bench.now += int(batch.next_due * SECOND)


def test_bull_2221_a_rate_was_exceeded_with_several_workers(shop: Shop) -> None:
    shop.set(rate="10/10000")
    shop.push(100)
    began: list[int] = []
    for _ in range(200):
        for session in (ANN, BOB):
            began += [shop.bench.now] * len(shop.reserve(session).jobs)
        shop.bench.now += SECOND // 4
    for at, first in enumerate(began):
        assert len(began) - at <= 10 + (began[-1] - first) / SECOND + 1e-6
    assert len(began) > 50, "and it was used"


def test_bull_2082_a_rate_limited_job_was_dropped(shop: Shop) -> None:
    shop.set(rate="2/600000")
    shop.push(100)
    assert len(shop.reserve().jobs) == 2
    assert not shop.reserve().jobs
    status, _ = shop.bench.run(queue_status.status(QUEUE))
    assert (status.ready, status.running) == (98, 2)
    shop.set(rate="")
    assert len(shop.reserve(want=200).jobs) == 98


def test_solid_queue_546_a_dead_worker_kept_its_slots(shop: Shop) -> None:
    shop.set(concurrency=2)
    shop.push(5)
    assert len(shop.reserve().jobs) == 2
    assert not shop.reserve(BOB, channel=CHANNEL).jobs
    shop.kill(ANN)
    assert (CHANNEL, QUEUE.jobs) in shop.bench.messages
    assert len(shop.reserve(BOB).jobs) == 2


def test_solid_queue_761_a_late_outcome_freed_a_slot_twice(shop: Shop) -> None:
    """A worker whose session ended settles jobs that run elsewhere."""
    shop.set(concurrency=1)
    shop.push(5)
    for _ in range(3):
        lost = shop.reserve()
        shop.kill(ANN)
        current = shop.reserve(BOB)
        assert len(current.jobs) == 1
        assert shop.settle(lost) == [False]
        assert not shop.reserve().jobs, "one runs"
        shop.settle(current, session=BOB)


def test_sidekiq_limit_fetch_157_more_ran_than_the_limit(shop: Shop) -> None:
    """A lower limit applies as slots become free; running jobs continue."""
    shop.push(10)
    batch = shop.reserve(want=4)
    shop.set(concurrency=2)
    assert not shop.reserve(BOB).jobs
    for count in (3, 2):
        shop.settle(Batch([batch.jobs[count]], None))
        assert not shop.reserve(BOB).jobs
    shop.settle(Batch([batch.jobs[1]], None))
    assert len(shop.reserve(BOB).jobs) == 1


def test_clock_step_back_costs_a_rate_one_period(shop: Shop) -> None:
    shop.set(rate="5/1000")
    shop.push(20)
    assert len(shop.reserve().jobs) == 5
    shop.bench.now -= 3600 * SECOND
    batch = shop.reserve()
    assert not batch.jobs
    assert batch.next_due
    assert batch.next_due <= 1.0


def test_drain_returns_when_the_last_job_ends(shop: Shop) -> None:
    shop.push(2)
    batch = shop.reserve()
    look = next(
        effect for effect in queue_limits.drain(QUEUE, CHANNEL, None, delayed=False) if isinstance(effect, Call)
    )
    assert shop.bench.call(look) == [0, 2, 0]
    assert shop.bench.call(look) == [0, 2, 0]
    shop.settle(Batch(batch.jobs[:1], None))
    assert not shop.bench.messages
    shop.settle(Batch(batch.jobs[1:], None))
    assert shop.bench.messages == [(CHANNEL, QUEUE.stats)], "once"
    assert "drain" not in shop.bench.fields(QUEUE.stats)
