"""Mutants of flows across queues. The checker must catch each, or it proves nothing."""

from __future__ import annotations

from simulator.server import Build

_ENDED, _JOBS, _MESSAGES, _OUTBOX = (f"flows/parts/{name}" for name in ("ended", "jobs", "messages", "outbox"))
_PUSH, _PART = "flows/push", "flows/push_part"
_TAKEN = "line.leased, line.request, changed = now_ms"
_WAITS = "store.set(opened, 'waits', number, 1)"
_RUNS = "redis.call('ZADD', due, math.floor(now / 1000), store.job_id(opened, number))"
_UNBLOCKED = (
    "letter) == 0 then return false end\n    if has(flow, 'waits', number) then count_unblocked() end\n    if value"
)
_RECORDED = "letter .. value) == 0 then return false end"
_LAST = "redis.call('HINCRBY', flows, left, -1) > 0"
_CANCEL = "send(flow, elsewhere, 'cancel', number, cause)"
_UNDONE = "if flow.record.home then store.delete(flow, 'compensation', number) end"
_UNDOING = "      flow.record.compensating = number\n"
_START = "if not has(flow, 'waits', number) then return end\n    local id"
_HASTY = ((_PUSH, "if not ends then", "if false then"), (_PUSH, "if flow_record.stored < all then", "if false then"))
MUTANTS = (
    Build("a message is delivered once at most", ((_OUTBOX, "LEASE_MS = 1000", "LEASE_MS = 10^15"),)),
    Build("a late relay acknowledges the messages of the next", ((_OUTBOX, " or line.request ~= request", ""),)),
    Build("all messages count as delivered", ((_OUTBOX, "math.min(last, line.last) do", "line.last do"),)),
    Build("a taken message is gone", ((_OUTBOX, _TAKEN, f"line.first = number\n    {_TAKEN}"),)),
    Build("no worker knows that messages wait", ((_OUTBOX, "redis.call('HSET', stats, 'outbox', 1)", "return"),)),
    Build("a part begins by itself", ((_PART, _WAITS, _RUNS),)),
    Build("a job starts with each message", ((_JOBS, _START, "local id"),)),
    Build(
        "a part reports each end as its first",
        ((_JOBS, _UNBLOCKED, "letter) == 9 then return false end\n    if value"),),
    ),
    Build("the home counts each report", ((_JOBS, _RECORDED, _RECORDED.replace("0", "9")),)),
    Build("the first parent is enough", ((_JOBS, _LAST, _LAST.replace("> 0", "> 99")),)),
    Build("a home ends a job, and its queue does not know", ((_JOBS, _CANCEL, "local _ = cause"),)),
    Build("a started job is not cancelled", ((_JOBS, "return send(flow, elsewhere, 'stop', number)", "return"),)),
    Build("a compensation runs with each message", ((_JOBS, _UNDONE, ""),)),
    Build(
        "the next compensation does not wait",
        ((_JOBS, _UNDOING, _UNDOING.replace("number", "elsewhere and 0 or number")),),
    ),
    Build("parts stay", ((_ENDED, "send_to_all(flow, 'over')", ""),)),
    Build("an incomplete part does not ask", ((_ENDED, "send_to_all(flow, 'ask')", ""),)),
    Build("an unknown home is no reason", ((_MESSAGES, "lose_home(flow) else", "local _ = flow else"),)),
    Build("a flow begins before its parts are stored", _HASTY),
)
