"""Mutants of unique jobs."""

from __future__ import annotations

from simulator.server import Build

_PUSH = "queue/push_unique"
_LIMIT = "if limit ~= '' then redis.call('ZADD', expiry, moment(limit), id) else redis.call('ZREM', expiry, id) end"
_FREED = "if name and name_owner(name) == id then redis.call('HDEL', groups, 'u ' .. name) end"
_OVER = "if over then free_name(id, record) end"
_AGAIN = "if again and (has_result(id) or redis.call('HEXISTS', jobs, id) == 1) then return id, 'n' end"
_OVERDUE = "if id and tonumber(redis.call('ZSCORE', expiry, id) or now_ms + 1) > now_ms then"
_LATEST = "if at and latest then at = math.max(now_ms, math.min(at, latest)) end"
_REFUSED = "if holder and holder ~= id then return false end"
_DEAD = "(plain(record) or retake_name(id, record, dead))"
_TAKEN = "if not retake_name(id, record, dead) then return 'taken' end"
MUTANTS = (
    Build(
        "any job frees a name",
        (("queue/parts/unique_names", _FREED, "if name then redis.call('HDEL', groups, 'u ' .. name) end"),),
    ),
    Build(
        "an ended job keeps its unique name",
        (("queue/parts/groups", _OVER, ""), ("queue/parts/unique_names", " == 1 and not", " >= 0 and not")),
    ),
    Build("a retry frees the name", (("queue/parts/groups", _OVER, "free_name(id, record)"),)),
    Build("a started job keeps its unique name", (("queue/reserve", "if special then begun(id, record) end", ""),)),
    Build(
        "all names are free when they begin",
        (("queue/parts/unique_names", "if unique_name(record) == 's' then", "if true then"),),
    ),
    Build("a rerun job takes another job's unique name", (("queue/parts/unique_names", _REFUSED, ""),)),
    Build(
        "a rerun job has no unique name",
        (("queue/parts/unique_names", "redis.call('HSET', groups, 'u ' .. name, id)", ""),),
    ),
    Build("a rerun job does not check its name", (("queue/revive", _TAKEN, ""),)),
    Build("dead jobs do not check their names", (("dead/retry", _DEAD, "true"),)),
    Build("a call sent again is a duplicate of itself", ((_PUSH, _AGAIN, ""),)),
    Build("an overdue job keeps its unique name", ((_PUSH, _OVERDUE, "if id then"),)),
    Build(
        "a running job becomes another call",
        ((_PUSH, " or not (waits or stands or is_suspect(id)) then return 'k' end", " then return 'k' end"),),
    ),
    Build("the first call counts", ((_PUSH, "redis.call('HSET', jobs, id, record)", ""),)),
    Build("its attempts count for the next", ((_PUSH, "redis.call('HDEL', tries, id)", ""),)),
    Build("the next job stays in its group queue", ((_PUSH, "leave_group_queue(id, old)", ""),)),
    Build("a debounced job waits for ever", ((_PUSH, _LATEST, ""),)),
    Build(
        "a debounced job is not moved",
        (
            (
                _PUSH,
                "if at or stands or suspected then redis.call('ZADD'",
                "if stands and not at then redis.call('ZADD'",
            ),
        ),
    ),
    Build(
        "a time that does not end",
        ((_PUSH, "tonumber(upto) > now_ms then return owner", "tonumber(upto) then return owner"),),
    ),
    Build(
        "a cancelled job keeps its unique name",
        (("queue/parts/leave", "if not plain(record) then free_name", "if nil then free_name"),),
    ),
    Build("a cleared job keeps its unique name", (("queue/clear", "free_name(id, record)", ""),)),
    Build(
        "a lost job has its name for ever",
        (("queue/parts/unique_names", "redis.call('HEXISTS', jobs, id) == 1 and", ""),),
    ),
    Build("its steps count for the next", ((_PUSH, "redis.call('HDEL', job_notes, id)", ""),)),
    Build("it expires when the first would have", ((_PUSH, _LIMIT, ""),)),
    Build("expired names are kept", ((_PUSH, "redis.call('HDEL', unique, unpack(over))", ""),)),
)
