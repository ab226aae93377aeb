"""Mutants of the queue."""

from __future__ import annotations

from simulator.server import Build

_KNOWN = "redis.call('HSETNX', jobs, id, record) == 1"
_RUNS = "if token then return {'running', alive, paused, ARGV[FIRST + at - 1], token} end"
_ALIVE = "string.format('(%.0f', math.floor(now / 1000))"
_TRIES = "if tried then redis.call('HSET', tries, id, tried) end"
MUTANTS = (
    Build("a push counts twice", (("queue/parts/push", _KNOWN, "redis.call('HSET', jobs, id, record) >= 0"),)),
    Build("recovery is not counted", (("queue/recover", _TRIES, ""),)),
    Build(
        "a crash is a failure",
        (("queue/parts/finish", "return attempt .. '/' .. crashes .. shared, crashes", "return attempt, crashes"),),
    ),
    Build("a crash of its own process is a failure", (("queue/settle", "tried = crashed(token)", ""),)),
    Build("crashes are forgotten", (("queue/reserve", "(count or 0) + 1, crashes or ''", "(count or 0) + 1, ''"),)),
    Build(
        "a shared crash counts",
        (("queue/parts/finish", "crashes .. '/' .. (tonumber(shared) or 0) + 1, crashes", "crashes + 1, crashes + 1"),),
    ),
    Build(
        "a suspect runs beside others",
        (("queue/reserve_suspects", "if #held > 0 then", "if again and #held > 0 then"),),
    ),
    Build("suspects are ready jobs", (("queue/recover", "if (shared and tried) or", "if"),)),
    Build("the cap on deliveries is ignored", (("queue/recover", "attempt >= most", "attempt > most"),)),
    Build("dead workers are not reported", (("queue/recover", "do dead_jobs[#dead_jobs + 1] = part end", "do end"),)),
    Build("due early", (("queue/reserve", "math.floor(now / 1000)", "math.floor(now / 1000) + 300"),)),
    Build("low before high", (("queue/reserve", "for level = 0, 2 do", "for level = 2, 0, -1 do"),)),
    Build("an ended session comes back", (("queue/heartbeat", "if joins == '1' or", "if true or"),)),
    Build("a running job is reported as waiting", (("queue/locate", _RUNS, ""),)),
    Build("a worker with an expired lease gets jobs", (("queue/locate", _ALIVE, "'-inf'"),)),
    Build(
        "a reserve call forgets its jobs",
        (("queue/reserve", "if again or offered > known then", "if false then"),),
    ),
)
