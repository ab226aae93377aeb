"""Mutants of flows. The checker must catch each, or it proves nothing."""

from __future__ import annotations

from simulator.server import Build

_FLOWS, _JOBS, _STORE = "flows/parts/ended", "flows/parts/jobs", "flows/parts/store"
_LAST = "redis.call('HINCRBY', flows, left, -1) > 0"
_MARK = "redis.call('HSET', job_notes, id, '1' .. string.sub(redis.call('HGET', job_notes, id) or '0', 2))"
_REST = "redis.call('ZADD', expiry, math.floor(now / 1000), 'flow '"
_COMPLETE = ("flows/push", "if flow_record.stored < all then", "if false then")
_REMOVE = "if never_ran then redis.call('HDEL', jobs, unpack(ids)) end"
MUTANTS = (
    Build("the first parent is enough", ((_JOBS, _LAST, "redis.call('HINCRBY', flows, left, -1) > 99"),)),
    Build("a flow begins with its first call", (("flows/push", "if not ends then", "if false then"), _COMPLETE)),
    Build("a full queue lets flows in", (("flows/push", "if no_room then return no_room end", ""),)),
    Build("a flow counts as one job", (("flows/push", "check_room(here, dead)", "check_room(1, dead)"),)),
    Build("a death does not cancel", (("queue/recover", "flow_ended(id, record, 'c', '')", ""),)),
    Build("effects of an outcome are skipped", (("queue/settle", "carry_on(outcomes, window)", ""),)),
    Build("the rest is left undone", ((_STORE, "cmsgpack.pack(flow.steps)", "cmsgpack.pack({})"),)),
    Build("no worker is notified of the rest", ((_FLOWS, _REST, "local _ = ('flow'"),)),
    Build("a step is the last one", ((_FLOWS, "if goes_on then step", "if false then step"),)),
    Build("another's result is passed on", (("flows/results", "' r' .. ARGV[at]", "' r' .. ARGV[#ARGV]"),)),
    Build("a result is not stored", (("queue/settle", "letter ~= 'c' and value", "letter == 'f' and value"),)),
    Build("a running job is not notified", ((_JOBS, _MARK, ""),)),
    Build("no job is compensated", ((_JOBS, "if policy == 'u' then record.compensates = true end", ""),)),
    Build("one compensation is enough", ((_JOBS, "record.compensating = 0\n", ""),)),
    Build("a caller waiting for the end is not notified", ((_FLOWS, "notify_watchers(flow)\n  end", "end"),)),
    Build("a reference to a missing result stays", ((_FLOWS, _REMOVE, ""),)),
)  # fmt: skip
