"""Single jobs against their model, and broken builds that the model must notice."""

from __future__ import annotations

import pytest

from model.bench import check, check_caught
from model.queues.job_machine import JobMachine
from simulation.server import Build, Server

_VOID = "and not (voids and voids[at] == 1)"
MUTANTS = (
    Build("a cancelled job keeps its slot", (("parts/leave", "redis.call('HDEL', jobs, id)\n", "\n"),)),
    Build("a void entry counts as ready", (("jobs_status", " - redis.call('SCARD', void)\n", "\n"),)),
    Build("a job that is due counts as scheduled", (("jobs_status", "waiting + came,", "waiting,"),)),
    Build("a moved job is leased at its old place", (("jobs_reserve", _VOID, ""),)),
    Build(
        "a moved job is queued twice",
        (("jobs_reserve", "not (any_void and redis.call('SREM', void, id) == 1)", "true"),),
    ),
    Build(
        "a revived job is queued twice",
        (("parts/control", "if redis.call('SREM', void, id) == 0 then", "if true then"),),
    ),
    Build("a leased job expires", (("jobs_reserve", "redis.call('ZREM', expiry, unpack(started))", ""),)),
    Build(
        "a resent job gets an expiry",
        (("jobs_push_until", "if not ended and redis.call('HEXISTS', jobs, id) == 0 then", "if true then"),),
    ),
    Build("a cancelled job is retried", (("jobs_settle", "if mark and outcome ~= 's' and", "if false and"),)),
    Build("a cancelled job is given back", (("jobs_recover", "if mark and string.sub", "if false and string.sub"),)),
    Build(
        "a snooze counts",
        (
            (
                "jobs_settle",
                "elseif outcome == 'z' then",
                "elseif outcome == 'z' then\n      redis.call('HSET', tries, id, attempt)",
            ),
        ),
    ),
    Build("any delivery writes", (("jobs_note", "~= token then return 0 end", "== '' then return 0 end"),)),
    Build(
        "a cancelled job is forgotten",
        (
            (
                "parts/finish",
                "return letter .. attempts(tried) .. ';' .. record",
                "return letter .. attempts(tried) .. ';'",
            ),
        ),
    ),
    Build("a revived job remembers its attempts", (("jobs_revive", "redis.call('HDEL', tries, id)", ""),)),
    Build(
        "steps are forgotten by a retry",
        (("jobs_settle", "if mark and (outcome == 's' or outcome == 'c')", "if mark"),),
    ),
    Build("progress ends with its job", (("parts/finish", "if type(progress) == 'string' and", "if false and"),)),
    Build(
        "a revived job has the progress of its former life",
        (("jobs_revive", "redis.call('HDEL', results[1], id, id .. ' p')", "redis.call('HDEL', results[1], id)"),),
    ),
    Build("cancelling forgets the steps", (("jobs_cancel", "'1' .. string.sub(note, 2)", "'1'"),)),
    Build(
        "a move to now is a move to later",
        (("jobs_reschedule", "if wait == '0' then enqueue_again", "if nil then enqueue_again"),),
    ),
)


def test_jobs_match_their_model(simulated: Server) -> None:
    check(JobMachine, simulated, Build())


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_broken_job_is_caught(simulated: Server, mutant: Build) -> None:
    check_caught(JobMachine, simulated, mutant)
