"""A queue's rate is used fully while jobs arrive: its workers in virtual time, with the real scripts."""

from __future__ import annotations

import pytest

from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import enqueue, leases, record_header, sessions
from lockwork.protocol.queue import limits as queue_limits
from lockwork.protocol.queue.enqueue import NewJob
from lockwork.protocol.queue.leases import Leased, Outcome
from models.bench import SECOND, Bench
from simulator.server import Build, Server

QUEUE = QueueKeys("sim", "q")
WINDOW_MS = 60_000
RECORD = record_header.head(1, 3) + b"body"


class Worker:
    """Calls when it is woken, and when its timer ends; each call takes some time."""

    def __init__(self, name: str, places: int, late: int) -> None:
        self.session = f"{name}/1/s"
        self.channel = f"wake:{name}"
        self.places = places
        self.late = late
        self.looks = 0
        """Time of the worker's next call, in µs."""
        self.runs: list[tuple[int, Leased]] = []
        """End times of the worker's jobs, in µs."""


class Shift:
    """A queue, and workers whose jobs take some time."""

    def __init__(self, simulated: Server, rate: str, *workers: Worker, lasts: int = 0) -> None:
        self.bench = Bench(simulated, Build())
        self.workers = list(workers)
        self.lasts = lasts
        self.begun: list[int] = []
        self.pushes: list[int] = []
        self.burst = 0
        """Number of jobs that arrive, one by one, after each start."""
        self.numbers = 0
        self.bench.run(leases.beat(QUEUE, {worker.session: True for worker in workers}, 3_600_000, 1.0))
        self.bench.run(queue_limits.change(QUEUE, {"rate": rate}))
        for worker in workers:
            self.bench.hear(worker.channel)

    def push(self, count: int = 1) -> None:
        self.numbers += count
        self.bench.run(enqueue.push(QUEUE, [NewJob(f"{self.numbers}.{at:03}", RECORD) for at in range(count)]))

    def ask(self, worker: Worker) -> None:
        """Fetch until no slot is free or no job is ready."""
        while len(worker.runs) < worker.places:
            self.numbers += 1
            free = worker.places - len(worker.runs)
            batch = self.bench.run(leases.reserve(QUEUE, worker.session, free, f"r{self.numbers}", worker.channel))
            now = self.bench.now
            if not batch.jobs:
                pause = leases.RECHECK if batch.next_due is None else min(batch.next_due, leases.RECHECK)
                worker.looks = now + int(pause * SECOND) + worker.late
                return
            self.begun += [now] * len(batch.jobs)
            self.pushes += [now + 3000 * (at + 1) for at in range(self.burst)]
            worker.runs += [(now + self.lasts, job) for job in batch.jobs]
            self._end(worker)
        worker.looks = self.bench.now + 3600 * SECOND

    def _end(self, worker: Worker) -> None:
        done = [job for at, job in worker.runs if at <= self.bench.now]
        if done:
            worker.runs = [run for run in worker.runs if run[0] > self.bench.now]
            ended = [Outcome(job.id, job.token, "s", b"1") for job in done]
            assert all(self.bench.run(leases.settle(QUEUE, worker.session, ended, WINDOW_MS)))

    def work(self, seconds: float) -> None:
        """Let this time pass."""
        end = self.bench.now + int(seconds * SECOND)
        while self._wake() or self._next() <= end:
            self.bench.now = max(self.bench.now, self._next())
            if self.pushes and min(self.pushes) <= self.bench.now:
                self.pushes.remove(min(self.pushes))
                self.push()
            for worker in self.workers:
                if worker.looks <= self.bench.now or any(at <= self.bench.now for at, _ in worker.runs):
                    self._end(worker)
                    self.ask(worker)
        self.bench.now = max(self.bench.now, end)

    def _next(self) -> int:
        ends = [at for worker in self.workers for at, _ in worker.runs]
        return min([*self.pushes, *ends, *(worker.looks for worker in self.workers)])

    def _wake(self) -> bool:
        """Let the notified workers call."""
        notified = {channel for channel, _ in self.bench.messages}
        self.bench.messages.clear()
        for worker in self.workers:
            if worker.channel in notified:
                worker.looks = min(worker.looks, self.bench.now + worker.late)
        return bool(notified)


def worker_processes(count: int, places: int = 10) -> list[Worker]:
    return [Worker(f"w{at}", places, 300 + 700 * at) for at in range(count)]


@pytest.mark.parametrize("count", [1, 2, 3, 12])
@pytest.mark.parametrize("burst", [0, 1, 9])
def test_rate_is_used_fully_while_jobs_arrive(simulated: Server, count: int, burst: int) -> None:
    """Each arrival woke the worker with the timer, which came too early and received a new time."""
    shift = Shift(simulated, "1/100", *worker_processes(count))
    shift.burst = burst
    shift.push(100)
    shift.work(6)
    assert 55 <= len(shift.begun) <= 61


@pytest.mark.parametrize("burst", [1, 9])
def test_slow_rate_is_used_fully(simulated: Server, burst: int) -> None:
    shift = Shift(simulated, "1/1000", *worker_processes(1))
    shift.burst = burst
    shift.push(100)
    shift.work(17.5)
    assert 17 <= len(shift.begun) <= 18


def test_worker_with_retry_at_is_not_woken_earlier(simulated: Server) -> None:
    first, second = worker_processes(2)
    shift = Shift(simulated, "1/1000", first, second)
    shift.push(2)
    for worker in (first, second):
        shift.ask(worker)
    assert len(shift.begun) == 1
    shift.bench.messages.clear()
    shift.push()
    assert not shift.bench.messages
    shift.bench.now += SECOND
    shift.push()
    assert len(shift.bench.messages) == 1, "one more may begin"


def test_worker_without_timer_is_notified(simulated: Server) -> None:
    """A timer that only one worker knows would be lost with that worker."""
    first, second = worker_processes(2)
    shift = Shift(simulated, "1/1000", first, second)
    for worker in (first, second):
        shift.ask(worker)
    shift.push()
    shift.ask(first)
    shift.bench.messages.clear()
    shift.push()
    assert [channel for channel, _ in shift.bench.messages] == [second.channel]


def test_worker_that_calls_again_keeps_its_turn(simulated: Server) -> None:
    shift = Shift(simulated, "1/1000", *worker_processes(1))
    shift.push(5)
    (worker,) = shift.workers
    shift.ask(worker)
    looks = worker.looks
    for _ in range(3):
        shift.bench.now += SECOND // 10
        shift.ask(worker)
        assert abs(worker.looks - looks) < 2000


def test_notified_worker_that_leaves_forwards_the_wakeup(simulated: Server) -> None:
    first, second, third = worker_processes(3)
    shift = Shift(simulated, "1/100", first, second, third)
    shift.push(5)
    for worker in (first, second, third):
        shift.ask(worker)
    shift.bench.messages.clear()
    assert not shift.bench.run(sessions.forward_wakeup(QUEUE, third.session, third.channel, 0, 600_000, awake=True)), (
        "the first comes"
    )
    assert shift.bench.run(sessions.forward_wakeup(QUEUE, first.session, first.channel, 0, 600_000, awake=True))
    assert [channel for channel, _ in shift.bench.messages] == [second.channel]
    looks = first.looks
    shift.ask(second)
    assert abs(second.looks - looks) < 2000


def test_killed_notified_worker_costs_at_most_a_second(simulated: Server) -> None:
    shift = Shift(simulated, "1/100", *worker_processes(3))
    shift.burst = 1
    shift.push(100)
    shift.work(1)
    next_one = min(shift.workers, key=lambda worker: worker.looks)
    shift.workers.remove(next_one)
    simulated.deafen(next_one.channel)
    count = len(shift.begun)
    shift.work(3)
    assert len(shift.begun) >= count + 19
