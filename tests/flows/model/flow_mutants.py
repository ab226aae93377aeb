"""Mutants of flows."""

from __future__ import annotations

from simulator.server import Build

_FLOWS, _JOBS, _STORE = "flows/parts/ended", "flows/parts/jobs", "flows/parts/store"
SMALL_STEPS = (_FLOWS, "local STEPS = 150", "local STEPS = 2")
_ONCE = "if redis.call('HSETNX', flows, store.field(flow, 'ended', number), letter .. value) == 0 then return false end"
_PASSES = "local passes = letter == 's' or store.get(flow, 'policy', step.parent) == 'i'"
_NEXT = "record.successes = record.successes - 1"
_UNDO = "compensate(flow)"
_HELD = "if waits_in_flow(flows, id) and flow_engine().still_waits(id) then return 'blocked' end"
_RUNS = "if flow and (flow.record.state == 'storing' or flow.record.state == 'running')"
_COUNTED = "redis.call('HDEL', flows, left)"
_BLOCKED = "if waits_in_flow(flows, id) then return {'blocked'} end"
_SKIPS = "members.cancel(flow, number, members.SKIPPED, outcomes)"
_CAUSED = "    if failed then\n      redis.call('HDEL', flows, left)\n    elseif redis"
_EARLIER = "return cause ~= number and string.sub(store.get(flow, 'ended', cause) or '', 1, 1) == 'f'"
MUTANTS = (
    Build("an end counts twice", ((_JOBS, _ONCE, _ONCE.replace("then return false end", "then end")),)),
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
    Build("compensations run at once", ((_FLOWS, f"and not {_UNDO}", f"and not ({_UNDO} and {_UNDO})"),)),
    Build("no flow is ever deleted", ((_STORE, "redis.call('HDEL', flows, unpack(fields))", ""),)),
    Build("a blocked job is not counted", ((_JOBS, "redis.call('HINCRBY', flows, '#', -1) <= 0", "false"),)),
    Build("a delay is forgotten", ((_JOBS, "moment(get(flow, 'delay', number) or 0)", "moment(0)"),)),
    Build("a blocked job can be moved", (("queue/reschedule", _BLOCKED, ""),)),
    Build("a rerun job does not wait", (("queue/revive", _HELD, ""),)),
    Build("one that was cancelled is not counted", ((_JOBS, _COUNTED, f"if waits then {_COUNTED} end"),)),
    Build("a job that waits for a failure always runs", ((_JOBS, _SKIPS, ""),)),
    Build("a job that waits for a failure never runs", ((_FLOWS, "return letter == 'f' end", "return false end"),)),
    Build("a later success undoes a failure", ((_JOBS, _CAUSED, "    if redis"),)),
    Build("the first of several causes decides", ((_JOBS, "redis.call('HINCRBY', flows, left, -1) == 0", "true"),)),
    Build("a failure of an earlier job is no cause", ((_FLOWS, _EARLIER, "return false"),)),
    Build(
        "a cancellation by a caller is a cause",
        ((_FLOWS, "return cause ~= number and ", "return cause == number or "),),
    ),
    Build("a skipped job is a cause", ((_FLOWS, "return letter == 'f' end", "return letter ~= 's' end"),)),
    Build("a skipped job counts as cancelled", ((_JOBS, "elseif letter == 'n' then", "elseif false then"),)),
    Build("jobs after a skipped one are cancelled", ((_FLOWS, "letter == 'n' and members.SKIPPED or cause", "cause"),)),
    Build("a skipped job can run again", (("queue/revive", "'^[cx]%d+[^;]*;(.*)$'", "'^[cxn]%d+[^;]*;(.*)$'"),)),
    Build("a cancelled job waits forever", (SMALL_STEPS, (_JOBS, _RUNS, "if true"))),
)
