"""Mutants of the callers' own ids."""

from __future__ import annotations

from simulator.server import Build

_PUSH = "queue/push_own"
_OUTCOME = "return outcome and string.sub(outcome, 1, 1) ~= 'f'"
_VOID = "if redis.call('SREM', void, id) == 1 then"
_LIMIT = "if limit ~= '' then redis.call('ZADD', expiry, moment(limit), id) end"
MUTANTS = (
    Build("an ended job's id is free", ((_PUSH, _OUTCOME, "return false"),)),
    Build("a deleted job keeps its id", ((_PUSH, _OUTCOME, "return outcome and true"),)),
    Build(
        "an id is free though its result has its own time", ((_PUSH, "long_result(long_results, expiry, id) or", ""),)
    ),
    Build(
        "an id stays in use after its result's time",
        ((_PUSH, "long_result(long_results, expiry, id) or", "redis.call('HGET', long_results, id) or"),),
    ),
    Build("a call sent again is a duplicate of itself", ((_PUSH, "again and known == record", "false"),)),
    Build("each call sent again is new", ((_PUSH, "again and known == record", "again"),)),
    Build("a repeated id of one call is new", ((_PUSH, "noted[id] = true", ""),)),
    Build(
        "a known job gets another expiry",
        ((_PUSH, _LIMIT, ""), (_PUSH, "  noted[id] = true\n", "  noted[id] = true\n  " + _LIMIT + "\n")),
    ),
    Build("its job has an earlier job's outcome", ((_PUSH, "redis.call('HDEL', newer_results, id, id .. ' p')", ""),)),
    Build("its job has an old outcome", ((_PUSH, "redis.call('HDEL', older_results, id, id .. ' p')", ""),)),
    Build("history has a waiting job", ((_PUSH, "  forget_ended(id)\n", ""),)),
    Build("a void place hides the new job", ((_PUSH, _VOID, "if false then"),)),
    Build(
        "a void place runs the new job early", ((_PUSH, "if redis.call('LREM', list, 1, id) == 1 then break end", ""),)
    ),
    Build(
        "a deleted outcome keeps its id", (("queue/delete", "if string.sub(id, 1, 1) == ':' then", "if false then"),)
    ),
)
