"""A reservation that is requested again, long after its first request was applied and expired."""

from __future__ import annotations

import pytest

from lockwork.protocol.effects import Argument, Call, script_call
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import leases, record_header
from lockwork.protocol.queue.enqueue import NewJob, push_arguments
from lockwork.protocol.queue.leases import Outcome
from lockwork.protocol.stock import stock
from lockwork.protocol.stock.stock import StockRules
from models.bench import SECOND, Bench
from simulator.server import Build, Server

QUEUE = QueueKeys("sim", "q")
RULES = StockRules(QUEUE, "phones", 2, 0)
SESSION = "host/1/a"
_JOB = push_arguments([NewJob("j", record_header.head(1, 3) + b"body")])
_ASKED: list[Argument] = [2, 0, "a", "eve", 1, 1000, ""]


@pytest.mark.parametrize(
    "call",
    [
        script_call("stock/reserve", RULES.queue, [*_ASKED, *_JOB], **RULES.keys._asdict()),
        script_call("stock/wait", RULES.queue, [*_ASKED, "channel", *_JOB], **RULES.keys._asdict()),
    ],
    ids=lambda call: call.script.name,
)
def test_job_of_resent_reservation_runs_once(simulated: Server, call: Call) -> None:
    bench = Bench(simulated, Build())
    bench.run(leases.beat(QUEUE, {SESSION: True}, 10**9, 1.0))
    assert bench.call(call)[0] == 1
    (job,) = bench.run(leases.reserve(QUEUE, SESSION, 9, "r1", "")).jobs
    bench.run(leases.settle(QUEUE, SESSION, [Outcome(job.id, job.token, "s", b"1")], 60_000))
    bench.now += 2 * SECOND
    assert bench.call(call.again())[0] == 1
    assert bench.run(stock.status(RULES)).reserved == 1
    assert not bench.run(leases.reserve(QUEUE, SESSION, 9, "r2", "")).jobs
