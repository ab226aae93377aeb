"""Mutants of flows."""

from __future__ import annotations

from simulation.server import Build

_FLOWS, _JOBS, _STORE = "flows/parts/ended", "flows/parts/jobs", "flows/parts/store"
SMALL_STEPS = (_FLOWS, "local STEPS = 150", "local STEPS = 2")
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
    Build("a dead worker's jobs are forgotten", (("queue/recover", "flow_ended(id, record, 'f', problem)", ""),)),
    Build("a cancelled job is forgotten", (("queue/cancel", "flow_ended(id, record, 'c', '')", ""),)),
    Build("a cleared job is forgotten", (("queue/clear", "flow_ended(id, record, 'c', '')", ""),)),
    Build("a cancelled flow had ended", (("flows/cancel", "again and", "false and"),)),
    Build(
        "a cancelled flow continues",
        (("flows/cancel", "if not is_cancelling() then", "if false then"),),
    ),
    Build("all that succeeded is undone", ((_FLOWS, "if not record.compensates then record.successes = 0 end", ""),)),
    Build("the first success is undone only", ((_FLOWS, _NEXT, "record.successes = 0"),)),
    Build("compensations run at once", ((_FLOWS, f"if {_UNDO}", f"if {_UNDO} and {_UNDO}"),)),
    Build("no flow is ever deleted", ((_STORE, "redis.call('HDEL', flows, unpack(fields))", ""),)),
    Build("a blocked job is not counted", ((_JOBS, "redis.call('HINCRBY', flows, '#', -1) <= 0", "false"),)),
    Build("a delay is forgotten", ((_JOBS, "moment(get(flow, 'delay', number) or 0)", "moment(0)"),)),
    Build("a blocked job can be moved", (("queue/reschedule", _BLOCKED, ""),)),
    Build("a rerun job does not wait", (("queue/revive", _HELD, ""),)),
    Build("one that was cancelled is not counted", ((_JOBS, _COUNTED, f"if waits then {_COUNTED} end"),)),
    Build("a cancelled job waits forever", (SMALL_STEPS, (_JOBS, _RUNS, "if true"))),
)
