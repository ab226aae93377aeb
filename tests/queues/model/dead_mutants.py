"""Mutants of the dead set, and of the scripts that clear a queue."""

from __future__ import annotations

from simulator.server import Build

_KEPT = "if last_step >= step then return reply end"
_FRESH = "if anew then redis.call('HDEL', tries, unpack(ids)) end"
_SAME = "low < high do"
_CLEARED = "for place = 1, 6 do\n  local most"
MUTANTS = (
    Build("a repeated step is done again", (("parts/step", _KEPT, ""),)),
    Build("a revived job stays dead, too", (("dead/retry", "redis.call('ZREM', dead, id)", ""),)),
    Build("attempts never begin anew", (("dead/retry", _FRESH, ""),)),
    Build("attempts always begin anew", (("dead/retry", "if anew then", "if true then"),)),
    Build(
        "the old outcome is taken for the new one",
        (("dead/retry", "redis.call('HDEL', newer_results, unpack(ids))", ""),),
    ),
    Build("a job that is not dead is revived", (("dead/retry", "local record = died and", "local record = "),)),
    Build("a deleted job keeps its record", (("dead/parts/forget", "redis.call('HDEL', jobs, unpack(ids))", ""),)),
    Build("deletions are not counted", (("dead/parts/forget", "'forgotten', #ids", "'forgotten', 0"),)),
    Build("the age limit is ignored", (("dead/trim", "tonumber(oldest[at + 1]) > latest", "true"),)),
    Build("one job too many is trimmed", (("dead/trim", "#ids >= over", "#ids > over"),)),
    Build("the newest go", (("dead/trim", "redis.call('ZRANGE', dead", "redis.call('ZREVRANGE', dead"),)),
    Build("pages pass over those of the same moment", (("parts/rank", _SAME, "false do"),)),
    Build(
        "pages repeat their last job", (("parts/rank", "rank(key, score, id, true)", "rank(key, score, id, false)"),)
    ),
    Build("ages are not looked at", (("parts/rank", "if greatest ~= '' then", "if false then"),)),
    Build("scheduled jobs outlive the clearing", (("queue/clear", _CLEARED, _CLEARED.replace("6", "3")),)),
    Build("cleared jobs keep their record", (("queue/clear", "redis.call('HDEL', jobs, unpack(ids))", "#ids"),)),
)
