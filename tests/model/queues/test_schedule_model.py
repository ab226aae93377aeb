"""Schedules on the server against their model, and broken builds that the model must notice."""

from __future__ import annotations

import pytest

from model.bench import check, check_caught
from model.queues.schedule_machine import ScheduleMachine
from simulation.server import Build, Server

_FIRE, _DECLARE, _JOBS = "schedule_fire", "schedule_declare", "parts/schedule_jobs"
MUTANTS = (
    Build("does not compare the cursor", ((_FIRE, "known[CURSOR] ~= tonumber(args[at + 2])", "false"),)),
    Build("fires early", ((_FIRE, "upto > today or", ""),)),
    Build("fires backwards", ((_FIRE, "or upto <= known[CURSOR]", ""),)),
    Build("trusts a scheduler that was away", ((_FIRE, "stale or", ""),)),
    Build("fires another definition", ((_FIRE, "known[DIGEST] == args[at + 1]", "true"),)),
    Build("enqueues late slots", ((_FIRE, "(late == 0 or today - slot <= late)", "true"),)),
    Build("enqueues paused schedules", ((_FIRE, "known[PAUSED] == 0 and", ""),)),
    Build("overlaps", ((_JOBS, "redis.call('HEXISTS', jobs, id) == 1", "false"),)),
    Build("overlaps with itself", ((_JOBS, "jobs_of[id] or", ""),)),
    Build("waits for the dead", ((_JOBS, "and not redis.call('ZSCORE', dead, id)", ""),)),
    Build(
        "repeats a job that has ended",
        (
            (_JOBS, "push(1, true)", "push(1, false)"),
            (_FIRE, "or upto <= known[CURSOR]", ""),
            (_FIRE, "known[CURSOR] ~= tonumber(args[at + 2])", "false"),
        ),
    ),
    Build("begins anew with every version", ((_DECLARE, "if fresh[TIMING] ~= timing then", "if true then"),)),
    Build("keeps the cursor of another timing", ((_DECLARE, "if fresh[TIMING] ~= timing then", "if false then"),)),
    Build("moves back with another timing", ((_DECLARE, "math.max(fresh[CURSOR], today)", "today - 2000"),)),
    Build("the old version is never replaced", ((_DECLARE, "if known and live and not joins then", "if known then"),)),
    Build("every version is the newest", ((_DECLARE, "known and live and not joins", "false"),)),
    Build(
        "keeps the old record",
        ((_DECLARE, ", 'r' .. name, record)", ")\n      redis.call('HSETNX', schedules, 'r' .. name, record)"),),
    ),
    Build("forgets a pause", ((_DECLARE, "local fresh = known or", "local fresh ="),)),
    Build("forgets no process", ((_DECLARE, "lived - KEPT, 'LIMIT'", "-1, 'LIMIT'"),)),
    Build("forgets too soon", ((_DECLARE, "lived - KEPT, 'LIMIT'", "lived - 70000, 'LIMIT'"),)),
    Build("time passes while no process runs", ((_DECLARE, "math.min(today - last, TURN)", "(today - last)"),)),
    Build("leaves its clock behind", ((_DECLARE, "redis.call('DEL', schedules)", ""),)),
    Build("lists deleted schedules", (("schedule_list", "lived - declared < LEASE and 1 or 0", "1"),)),
    Build(
        "resumes at the slot of the pause",
        (("schedule_pause", "math.max(known[CURSOR], math.floor(now / 1000))", "known[CURSOR]"),),
    ),
    Build("resumes when it was not paused", (("schedule_pause", "if known[PAUSED] ~= paused then", "if true then"),)),
    Build("runs again when sent again", (("schedule_run", "if known[JOB] == id or before then", "if false then"),)),
    Build("runs beside itself", (("schedule_run", "alone and", "false and"),)),
    Build(
        "a run moves the slots",
        (
            (
                "schedule_run",
                "known[JOB], known[ENQUEUED] = id",
                "known[CURSOR] = math.floor(now / 1000)\nknown[JOB], known[ENQUEUED] = id",
            ),
        ),
    ),
)


def test_calls_match_their_model(simulated: Server) -> None:
    check(ScheduleMachine, simulated, Build())


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_broken_build_is_caught(simulated: Server, mutant: Build) -> None:
    check_caught(ScheduleMachine, simulated, mutant)
