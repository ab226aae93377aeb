"""Outcomes are kept as promised, for any step of the server's clock."""

from __future__ import annotations

import pytest

from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import enqueue, leases, record_header
from lockwork.protocol.queue.enqueue import NewJob
from lockwork.protocol.queue.leases import Outcome
from models.bench import SECOND, Bench
from simulator.server import Build, Server

QUEUE = QueueKeys("sim", "q")
SESSION = "host/1/a"
WINDOW_MS = 60_000


@pytest.fixture
def bench(simulated: Server) -> Bench:
    bench = Bench(simulated, Build())
    bench.run(leases.beat(QUEUE, {SESSION: True}, 10**9, 1.0))
    return bench


def _done(bench: Bench, id: str) -> None:
    bench.run(enqueue.push(QUEUE, [NewJob(id, record_header.head(1, 3) + b"body")]))
    (job,) = bench.run(leases.reserve(QUEUE, SESSION, 1, f"r{id}", "")).jobs
    bench.run(leases.settle(QUEUE, SESSION, [Outcome(job.id, job.token, "s", b"1")], WINDOW_MS))


def _state(bench: Bench, id: str) -> str:
    return bench.run(leases.job_state(QUEUE, id)).state


def test_repeated_clock_steps_back_lose_no_result(bench: Bench) -> None:
    for number in range(5):
        _done(bench, str(number))
        bench.now -= SECOND
    assert [_state(bench, str(number)) for number in range(5)] == ["ended"] * 5


def test_clock_step_back_by_hours_does_not_keep_results_for_hours(bench: Bench) -> None:
    _done(bench, "before")
    bench.now -= 5 * 3600 * SECOND
    for number in range(3):
        _done(bench, str(number))
        bench.now += (WINDOW_MS // 1000 + 1) * SECOND
    assert [_state(bench, id) for id in ("before", "0", "1", "2")] == ["unknown", "unknown", "ended", "ended"]
