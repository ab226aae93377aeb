"""Flows against their model, and broken flows that the model must notice."""

from __future__ import annotations

import pytest

from lockwork.errors import WaitTimeout
from lockwork.protocol.effects import Call
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queues import flows, leases
from lockwork.protocol.queues import limits as queue_limits
from lockwork.protocol.queues import status as queue_status
from lockwork.protocol.queues.flows import FlowJob
from lockwork.protocol.queues.leases import Outcome
from model.bench import SECOND, Bench, check, check_caught
from model.queues.flow_machine import FlowMachine
from model.queues.stepwise_flow_machine import StepwiseFlowMachine
from simulation.server import Build, Server

_FLOWS, _JOBS, _STORE = "parts/flows", "parts/flow_jobs", "parts/flow_store"
_SMALL_STEPS = (_FLOWS, "local STEPS = 150", "local STEPS = 2")
_ONCE = "if redis.call('HSETNX', flows, store.field(flow, 'ended', number), letter .. value) == 0 then return end"
_PASSES = "local passes = letter == 's' or store.get(flow, 'policy', step.parent) == 'i'"
_NEXT = "record.successes = record.successes - 1"
_UNDO = "compensate(flow)"
_HELD = "if waits_in_flow(flows, id) and flow_engine().still_waits(id) then return 'blocked' end"
_RUNS = "if flow and (flow.record.state == 'storing' or flow.record.state == 'running')"
_COUNTED = "redis.call('HDEL', flows, left)"
_BLOCKED = "if waits_in_flow(flows, id) then return {'blocked'} end"
MUTANTS = (
    Build("an end counts twice", ((_JOBS, _ONCE, _ONCE.replace("then return end", "then end")),)),
    Build("a failure passes", ((_FLOWS, _PASSES, "local passes = true"),)),
    Build("no failure is ignored", ((_FLOWS, _PASSES, "local passes = letter == 's'"),)),
    Build("a dead worker's jobs are forgotten", (("jobs_recover", "flow_ended(id, record, 'f', problem)", ""),)),
    Build("a cancelled job is forgotten", (("jobs_cancel", "flow_ended(id, record, 'c', '')", ""),)),
    Build("a cleared job is forgotten", (("jobs_clear", "flow_ended(id, record, 'c', '')", ""),)),
    Build("a cancelled flow had ended", (("flow_cancel", "again and", "false and"),)),
    Build(
        "a cancelled flow continues",
        (("flow_cancel", "if not (opened.steps[1] and opened.steps[1].cancel) then", "if false then"),),
    ),
    Build("the rest is left undone", (_SMALL_STEPS, (_STORE, "cmsgpack.pack(flow.steps)", "cmsgpack.pack({})"))),
    Build("a step is the last one", (_SMALL_STEPS, (_FLOWS, "if goes_on then step", "if false then step"))),
    Build("all that succeeded is undone", ((_FLOWS, "if not record.compensates then record.successes = 0 end", ""),)),
    Build("the first success is undone only", ((_FLOWS, _NEXT, "record.successes = 0"),)),
    Build("compensations run at once", ((_FLOWS, f"if {_UNDO}", f"if {_UNDO} and {_UNDO}"),)),
    Build("no flow is ever deleted", ((_STORE, "redis.call('HDEL', flows, unpack(fields))", ""),)),
    Build("a blocked job is not counted", ((_JOBS, "redis.call('HINCRBY', flows, '#', -1) <= 0", "false"),)),
    Build("a delay is forgotten", ((_JOBS, "moment(get(flow, 'delay', number) or 0)", "moment(0)"),)),
    Build("a blocked job can be moved", (("jobs_reschedule", _BLOCKED, ""),)),
    Build("one that is run again does not wait", (("jobs_revive", _HELD, ""),)),
    Build("one that was cancelled is not counted", ((_JOBS, _COUNTED, f"if waits then {_COUNTED} end"),)),
    Build("a cancelled job waits forever", (_SMALL_STEPS, (_JOBS, _RUNS, "if true"))),
)


def test_flows_match_their_model(simulated: Server) -> None:
    check(FlowMachine, simulated, Build())


def test_flows_that_are_dealt_with_in_small_steps(simulated: Server) -> None:
    check(StepwiseFlowMachine, simulated, Build("small steps", (_SMALL_STEPS,)))


def test_a_flow_that_is_not_stored_to_its_end_never_runs(simulated: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its producer has died, or sends the rest after it was forgotten: either way, all of it is gone."""
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
    """One call ended so many parents that it did not come to an end with their children."""
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
    bench, queue = Bench(simulated, Build("small steps", (_SMALL_STEPS,))), QueueKeys("sim", "q")
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


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_broken_flows_are_caught(simulated: Server, mutant: Build) -> None:
    machine = StepwiseFlowMachine if _SMALL_STEPS in mutant.edits else FlowMachine
    check_caught(machine, simulated, mutant)
