"""Broken twins of flows. The checker must catch each, or it proves nothing."""

from __future__ import annotations

from simulation.server import Build

_FLOWS = "parts/flows"
_LAST = "redis.call('HINCRBY', flows, field, -1) > 0"
_MARK = "redis.call('HSET', notes, id, '1' .. string.sub(redis.call('HGET', notes, id) or '0', 2))"
_REST = "redis.call('ZADD', expiry, math.floor(now / 1000), 'flow '"
_COMPLETE = ("flow_push", "if book[STORED] < total then", "if false then")
TWINS = (
    Build("the first parent is enough", ((_FLOWS, _LAST, "redis.call('HINCRBY', flows, field, -1) > 99"),)),
    Build("a flow begins with its first call", (("flow_push", "if not ends then", "if false then"), _COMPLETE)),
    Build("a full queue lets flows in", (("flow_push", "if no_room then return no_room end", ""),)),
    Build("a flow counts as one job", (("flow_push", "crowded(total, dead)", "crowded(1, dead)"),)),
    Build("a death does not cancel", (("jobs_recover", "flow_ended(id, record, 'c', '')", ""),)),
    Build("what an end means is left undone", (("jobs_settle", "carry_on(outcomes, window)", ""),)),
    Build("the rest is left undone", ((_FLOWS, "cmsgpack.pack(rest))", "cmsgpack.pack({}))"),)),
    Build("nobody is told of the rest", ((_FLOWS, _REST, "local _ = ('flow'"),)),
    Build("a step is the last one", ((_FLOWS, "if goes_on then todo", "if false then todo"),)),
    Build("another's result is passed on", (("flow_results", "' r' .. ARGV[at]", "' r' .. ARGV[#ARGV]"),)),
    Build("a result is not kept", (("jobs_settle", "letter ~= 'c' and value", "letter == 'f' and value"),)),
    Build("who runs is not told", ((_FLOWS, _MARK, ""),)),
    Build("nothing is undone", ((_FLOWS, "if policy == 'u' then book[UNDO] = 1 end", ""),)),
    Build("one compensation is enough", ((_FLOWS, "book[UNDOING] = 0\n", ""),)),
    Build("who waits for the end is not told", ((_FLOWS, "flow_tell(flow)\n          end", "end"),)),
    Build("what was never stored stays", ((_FLOWS, "if never then redis.call('HDEL', jobs, unpack(ids)) end", ""),)),
)  # fmt: skip
