"""Mutants of schedules."""

from __future__ import annotations

from simulator.server import Build

_FIRE, _DECLARE, _JOBS = "schedules/fire", "schedules/declare", "schedules/parts/jobs"
MUTANTS = (
    Build("does not compare the cursor", ((_FIRE, "known[CURSOR] ~= tonumber(args[at + 2])", "false"),)),
    Build("fires backwards", ((_FIRE, "upto < least or", ""),)),
    Build("trusts a scheduler that was away", ((_FIRE, "stale or", ""),)),
    Build("waits for the dead", ((_JOBS, "and not redis.call('ZSCORE', dead, id)", ""),)),
    Build(
        "repeats a job that has ended",
        (
            (_JOBS, "push(1, true)", "push(1, false)"),
            (_FIRE, "upto < least or", ""),
            (_FIRE, "known[CURSOR] ~= tonumber(args[at + 2])", "false"),
        ),
    ),
    Build("keeps the cursor of another timing", ((_DECLARE, "if fresh[TIMING] ~= timing then", "if false then"),)),
    Build("moves back with another timing", ((_DECLARE, "math.max(fresh[CURSOR], now_ms)", "now_ms - 2000"),)),
    Build(
        "keeps the old record",
        ((_DECLARE, ", 'r' .. name, record)", ")\n      redis.call('HSETNX', schedules, 'r' .. name, record)"),),
    ),
    Build("forgets too soon", ((_DECLARE, "lived - KEPT, 'LIMIT'", "lived - 70000, 'LIMIT'"),)),
    Build("time passes while no process runs", ((_DECLARE, "math.min(now_ms - last, TURN)", "(now_ms - last)"),)),
    Build("lists deleted schedules", (("schedules/parts/row", "is_declared(name) and 1 or 0", "1"),)),
    Build("resumes when it was not paused", (("schedules/pause", "if known[PAUSED] ~= paused then", "if true then"),)),
    Build(
        "a run moves the slots",
        (
            (
                "schedules/run",
                "known[JOB], known[ENQUEUED] = id",
                "known[CURSOR] = math.floor(now / 1000)\nknown[JOB], known[ENQUEUED] = id",
            ),
        ),
    ),
)
