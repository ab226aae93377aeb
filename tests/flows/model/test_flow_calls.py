"""Flows that need several calls of a script, sent one after the other."""

from __future__ import annotations

import pytest

from flows.model.flow_mutants import SMALL_STEPS
from lockwork.errors import WaitTimeout
from lockwork.protocol.effects import Call
from lockwork.protocol.flows import flows
from lockwork.protocol.flows.flows import FlowJob
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import leases
from lockwork.protocol.queue import limits as queue_limits
from lockwork.protocol.queue import status as queue_status
from lockwork.protocol.queue.leases import Outcome
from models.bench import SECOND, Bench
from simulator.server import Build, Server


def test_a_flow_that_is_not_stored_to_its_end_never_runs(simulated: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A flow is removed if its producer dies halfway or sends the rest after the server has forgotten the flow."""
    monkeypatch.setattr(flows, "_BATCH", 100)
    bench, queue = Bench(simulated, Build()), QueueKeys("sim", "q")
    bench.run(leases.beat(queue, {"host/1/a": True}, 10**9, 1.0))
    plan = [FlowJob(b"1,3,,;body") for _ in range(1000)]
    storing = flows.push(queue, "f", plan, 0)
    call = next(storing)
    for _ in range(9):
        assert isinstance(call, Call)
        call = storing.send(bench.call(call))
    assert bench.run(leases.reserve(queue, "host/1/a", 10, "q1", "")).jobs == []
    assert len(bench.fields(queue.jobs)) == 900
    bench.now += 601 * SECOND
    assert bench.run(leases.reserve(queue, "host/1/a", 10, "q2", "")).jobs == []
    assert not bench.fields(queue.jobs)
    assert not bench.fields(queue.flows)
    assert isinstance(call, Call)
    with pytest.raises(StopIteration) as done:
        storing.send(bench.call(call))
    assert done.value.value is False
    assert not bench.fields(queue.jobs)
    assert bench.run(queue_status.status(queue))[0].enqueued == 0


def test_a_queue_is_not_drained_while_something_of_a_flow_is_left_to_do(simulated: Server) -> None:
    """One call ends more parents than it can handle, so their children are still blocked."""
    bench, queue = Bench(simulated, Build()), QueueKeys("sim", "q")
    bench.run(leases.beat(queue, {"host/1/a": True}, 10**9, 1.0))
    parents, children = 20, 100
    first = [FlowJob(b"1,3,,;body")] * parents
    assert bench.run(flows.push(queue, "f", [*first, *[FlowJob(b"1,3,,;body", range(1, parents + 1))] * children], 0))
    held = bench.run(leases.reserve(queue, "host/1/a", 1000, "q1", "")).jobs
    ended = [Outcome(job.id, job.token, "s", b"1") for job in held]
    assert len(ended) == parents
    assert all(bench.run(leases.settle(queue, "host/1/a", ended, 60_000)))
    for delayed in (True, False):
        with pytest.raises(WaitTimeout, match="100 jobs wait, 0 run"):
            bench.run(queue_limits.drain(queue, "", 0, delayed=delayed))
    assert len(bench.run(leases.reserve(queue, "host/1/a", 1000, "q2", "")).jobs) == children


def test_a_queue_is_drained_although_a_flow_waits_for_its_time(simulated: Server) -> None:
    bench, queue = Bench(simulated, Build()), QueueKeys("sim", "q")
    assert bench.run(flows.push(queue, "f", [FlowJob(b"1,3,,;body", delay_ms=5000), FlowJob(b"1,3,,;body", [1])], 0))
    bench.run(queue_limits.drain(queue, "", 0, delayed=False))
    with pytest.raises(WaitTimeout, match="1 job waits, 0 run"):
        bench.run(queue_limits.drain(queue, "", 0, delayed=True))


def test_cancel_flow_reports_success_when_workers_finish_it(simulated: Server) -> None:
    bench, queue = Bench(simulated, Build("small steps", (SMALL_STEPS,))), QueueKeys("sim", "q")
    assert bench.run(flows.push(queue, "f", [FlowJob(b"1,3,,;body")] * 9, 0))
    cancelling = flows.cancel(queue, "f")
    first = next(cancelling)
    assert isinstance(first, Call)
    second = cancelling.send(bench.call(first))
    assert isinstance(second, Call)
    bench.run(leases.expire(queue, 60_000))
    with pytest.raises(StopIteration) as done:
        cancelling.send(bench.call(second))
    assert done.value.value == ("cancelled", [])
    assert bench.run(flows.cancel(queue, "f")) == ("ended", [])
