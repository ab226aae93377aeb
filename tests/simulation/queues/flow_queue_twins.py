"""Broken twins of flows. The checker must catch each, or it proves nothing."""

from __future__ import annotations

from simulation.server import Build

_FLOWS = "parts/flows"
_ONCE = "if redis.call('HSETNX', flows, flow .. ' r' .. number, letter .. value) == 0 then return end"
_PASSES = "local passes = letter == 's' or flow_get(flow, 'p', number) == 'i'"
_LAST = "redis.call('HINCRBY', flows, field, -1) > 0"
_UNDO = "flow_undo(flow, book)"
_NEXT = "redis.call('HDEL', flows, flow .. ' y' .. book[TOP])\n      book[TOP] = book[TOP] - 1"
_HELD = "if waits_in_flow(flows, id) and of_flows().holds(id) then return 'blocked' end"
_BLOCKED = "if waits_in_flow(flows, id) then return {'blocked'} end"
_MARK = "redis.call('HSET', notes, id, '1' .. string.sub(redis.call('HGET', notes, id) or '0', 2))"
_REST = "redis.call('ZADD', expiry, math.floor(now / 1000), 'flow '"
_COMPLETE = ("flow_push", "if book[STORED] < total then", "if false then")
TWINS = (
    Build("the first parent is enough", ((_FLOWS, _LAST, "redis.call('HINCRBY', flows, field, -1) > 99"),)),
    Build("a flow begins with its first call", (("flow_push", "if not last then", "if false then"), _COMPLETE)),
    Build("a full queue lets flows in", (("flow_push", "if no_room then return no_room end", ""),)),
    Build("a flow counts as one job", (("flow_push", "crowded(total, dead)", "crowded(1, dead)"),)),
    Build("an end counts twice", ((_FLOWS, _ONCE, _ONCE.replace("then return end", "then end")),)),
    Build("a failure passes", ((_FLOWS, _PASSES, "local passes = true"),)),
    Build("nothing is ignored", ((_FLOWS, _PASSES, "local passes = letter == 's'"),)),
    Build("a dead worker's jobs are forgotten", (("jobs_recover", "flow_ended(id, record, 'f', problem)", ""),)),
    Build("a death does not cancel", (("jobs_recover", "flow_ended(id, record, 'c', '')", ""),)),
    Build("a cancelled job is forgotten", (("jobs_cancel", "flow_ended(id, record, 'c', '')", ""),)),
    Build("who is cleared away is forgotten", (("jobs_clear", "flow_ended(id, record, 'c', '')", ""),)),
    Build("what an end means is left undone", (("jobs_settle", "carry_on(outcomes, window)", ""),)),
    Build("the rest is left undone", ((_FLOWS, "cmsgpack.pack(rest))", "cmsgpack.pack({}))"),)),
    Build("nobody is told of the rest", ((_FLOWS, _REST, "local _ = ('flow'"),)),
    Build("a step is the last one", ((_FLOWS, "if goes_on then todo", "if false then todo"),)),
    Build("another's result is passed on", (("flow_results", "' r' .. ARGV[at]", "' r' .. ARGV[#ARGV]"),)),
    Build("a result is not kept", (("jobs_settle", "letter ~= 'c' and value", "letter == 'f' and value"),)),
    Build("a cancelled flow goes on", (("flow_cancel", "if todo[1] ~= -1 then", "if false then"),)),
    Build("who runs is not told", ((_FLOWS, _MARK, ""),)),
    Build("all that succeeded is undone", ((_FLOWS, "if book[UNDO] == 0 then book[TOP] = 0 end", ""),)),
    Build("nothing is undone", ((_FLOWS, "if policy == 'u' then book[UNDO] = 1 end", ""),)),
    Build("the last success is undone only", ((_FLOWS, _NEXT, _NEXT.replace("book[TOP] - 1", "0")),)),
    Build("compensations run at once", ((_FLOWS, f"if {_UNDO}", f"if {_UNDO} and {_UNDO}"),)),
    Build("one compensation is enough", ((_FLOWS, "book[UNDOING] = 0\n", ""),)),
    Build("one that is run again does not wait", (("jobs_revive", _HELD, ""),)),
    Build("a delay is forgotten", ((_FLOWS, "moment(flow_get(flow, 'l', number) or 0)", "moment(0)"),)),
    Build("a blocked job can be moved", (("jobs_reschedule", _BLOCKED, ""),)),
    Build("who waits is not counted", ((_FLOWS, "redis.call('HINCRBY', flows, '#', -1) <= 0", "false"),)),
    Build("who waits for the end is not told", ((_FLOWS, "flow_tell(flow)\n          end", "end"),)),
    Build("nothing is ever forgotten", ((_FLOWS, "redis.call('HDEL', flows, unpack(fields))", ""),)),
    Build("what was never stored stays", ((_FLOWS, "if never then redis.call('HDEL', jobs, unpack(ids)) end", ""),)),
)  # fmt: skip
