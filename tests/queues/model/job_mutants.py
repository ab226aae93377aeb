"""Mutants of single jobs."""

from __future__ import annotations

from simulator.server import Build

_VOID = "voids and voids[at] == 1"
MUTANTS = (
    Build("a cancelled job keeps its slot", (("queue/parts/leave", "redis.call('HDEL', jobs, id)\n", "\n"),)),
    Build("a void entry counts as ready", (("queue/status", " - redis.call('SCARD', void)\n", "\n"),)),
    Build("a job that is due counts as scheduled", (("queue/status", "waiting + came,", "waiting,"),)),
    Build("a moved job is leased at its old place", (("queue/reserve", _VOID, "false"),)),
    Build(
        "a moved job is queued twice",
        (("queue/reserve", "not (any_void and redis.call('SREM', void, id) == 1)", "true"),),
    ),
    Build(
        "a revived job is queued twice",
        (("queue/parts/control", "if redis.call('SREM', void, id) == 0 then", "if true then"),),
    ),
    Build(
        "a job that has not begun does not expire",
        (("queue/settle", "local expires_ms = unbegun and", "local expires_ms = false and"),),
    ),
    Build(
        "a job that has begun expires",
        (("queue/settle", "local unbegun = outcome == 'n'", "local unbegun = outcome ~= 's'"),),
    ),
    Build("a leased job expires", (("queue/reserve", "redis.call('ZREM', expiry, unpack(started))", ""),)),
    Build(
        "a resent job gets an expiry",
        (("queue/push_until", "if not ended and redis.call('HEXISTS', jobs, id) == 0 then", "if true then"),),
    ),
    Build("a cancelled job is retried", (("queue/settle", "if mark and outcome ~= 's' and", "if false and"),)),
    Build("a cancelled job is given back", (("queue/recover", "if mark and string.sub", "if false and string.sub"),)),
    Build(
        "a snooze counts",
        (
            (
                "queue/settle",
                "elseif outcome == 'z' then",
                "elseif outcome == 'z' then\n      redis.call('HSET', tries, id, attempt)",
            ),
        ),
    ),
    Build("any delivery writes", (("queue/note", "~= token then return LEASE_OVER end", "== '' then return 0 end"),)),
    Build(
        "a cancelled job is forgotten",
        (
            (
                "queue/parts/finish",
                "return letter .. attempts(tried) .. ';' .. record",
                "return letter .. attempts(tried) .. ';'",
            ),
        ),
    ),
    Build("a revived job remembers its attempts", (("queue/revive", "redis.call('HDEL', tries, id)", ""),)),
    Build(
        "steps are forgotten by a retry",
        (("queue/settle", "if mark and (outcome == 's' or outcome == 'c')", "if mark"),),
    ),
    Build("progress ends with its job", (("queue/parts/finish", "if type(progress) == 'string' and", "if false and"),)),
    Build(
        "a revived job has the progress of its former life",
        (
            (
                "queue/revive",
                "redis.call('HDEL', newer_results, id, id .. ' p')",
                "redis.call('HDEL', newer_results, id)",
            ),
        ),
    ),
    Build("cancelling forgets the steps", (("queue/cancel", "'1' .. string.sub(note, 2)", "'1'"),)),
    Build(
        "a move to now is a move to later",
        (("queue/reschedule", "if wait == '0' then enqueue_again", "if nil then enqueue_again"),),
    ),
)
