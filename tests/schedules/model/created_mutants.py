"""Mutants of schedules that are created at run time."""

from __future__ import annotations

from simulator.server import Build

_CREATE, _DELETE, _PAUSE, _FIRE = (f"schedules/{name}" for name in ("create", "delete", "pause", "fire"))
_DECLARE, _CHANGES, _LOOKS = "schedules/declare", "schedules/parts/changes", "schedules/parts/looks"
MUTANTS = (
    Build("takes a name of the code", ((_CREATE, "if not known and is_declared(name) then", "if false then"),)),
    Build("deletes from the code", ((_DELETE, "if is_declared(name) then return DECLARED end", ""),)),
    Build("the code takes a created name", ((_DECLARE, "created_count > 0 and load(created, name)", "false"),)),
    Build("changes without a message", ((_CREATE, "  look_now(name, now_ms)\nelse", "else"),)),
    Build("tells each time", ((_CHANGES, "if looking then return end", ""),)),
    Build("does not count changes", ((_CHANGES, "redis.call('HINCRBY', stats, 'schedules', 1)", ""),)),
    Build(
        "keeps the old record",
        ((_CREATE, ", 'r' .. name, record)", ")\nredis.call('HSETNX', created, 'r' .. name, record)"),),
    ),
    Build("keeps the slots of another timing", ((_CREATE, "if state[TIMING] ~= timing then", "if false then"),)),
    Build("forgets the counters", ((_CREATE, "local state = known or", "local state ="),)),
    Build("a moment begins now", ((_CREATE, "begin > 0 and begin or now_ms, 0", "now_ms, 0"),)),
    Build("the same is a change", ((_CREATE, "if known and known[DIGEST] == digest then return UNCHANGED end", ""),)),
    Build("a change ends the pause", ((_CREATE, "if state[PAUSED] == 0 then", "if true then"),)),
    Build("keeps the name of a deleted one", ((_LOOKS, "redis.call('ZREM', created_names, name)", ""),)),
    Build("keeps the look of a deleted one", ((_LOOKS, "redis.call('ZREM', looks, name)", ""),)),
    Build("fires while it is paused", ((_FIRE, "and not (next_look and known[PAUSED] == 1)", ""),)),
    Build("a pause stays due", ((_PAUSE, "redis.call('ZADD', looks, PAUSED_LOOK, name)", ""),)),
    Build("does not compare the cursor", ((_FIRE, "known[CURSOR] ~= tonumber(args[at + 2])", "false"),)),
    Build("trusts a worker that was away", ((_FIRE, "stale or", ""),)),
    Build(
        "does not set the next look", ((_FIRE, "if next_look then redis.call('ZADD', looks, next_look, name) end", ""),)
    ),
    Build("stays after its last slot", ((_FIRE, "if next_look == 0 then", "if false then"),)),
    Build("lists no more than the code", (("schedules/parts/row", "hash == created and 2 or", ""),)),
    Build(
        "reads what is not due",
        (("schedules/due", "looks, '-inf', now_ms, 'LIMIT'", "looks, '-inf', '+inf', 'LIMIT'"),),
    ),
    Build("repeated deletion is refused", ((_DELETE, "again and DELETED or UNKNOWN", "DECLARED"),)),
)
