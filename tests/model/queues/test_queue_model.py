"""The queue against its model, and broken queues that the model must notice."""

from __future__ import annotations

import pytest

from model.bench import check, check_caught
from model.queues.queue_machine import QueueMachine
from simulation.server import Build, Server

_KNOWN = "redis.call('HSETNX', jobs, id, record) == 1"
_RUNS = "if token then return {'running', alive, paused, ARGV[FIRST + at - 1], token} end"
_ALIVE = "string.format('(%.0f', math.floor(now / 1000))"
_TRIES = "if tried then redis.call('HSET', tries, id, tried) end"
MUTANTS = (
    Build("a push counts twice", (("parts/push", _KNOWN, "redis.call('HSET', jobs, id, record) >= 0"),)),
    Build("recovery is not counted", (("jobs_recover", _TRIES, ""),)),
    Build(
        "a crash is a failure",
        (("parts/finish", "return attempt .. '/' .. crashes, crashes", "return attempt, crashes"),),
    ),
    Build("a crash of its own process is a failure", (("jobs_settle", "tried = crashed(token)", ""),)),
    Build("crashes are forgotten", (("jobs_reserve", "(count or 0) + 1, crashes or ''", "(count or 0) + 1, ''"),)),
    Build("the cap on deliveries is ignored", (("jobs_recover", "attempt >= most", "attempt > most"),)),
    Build("dead workers are not reported", (("jobs_recover", "do reply[#reply + 1] = part end", "do end"),)),
    Build("due early", (("jobs_reserve", "math.floor(now / 1000)", "math.floor(now / 1000) + 300"),)),
    Build("low before high", (("jobs_reserve", "for level = 0, 2 do", "for level = 2, 0, -1 do"),)),
    Build("an ended session comes back", (("jobs_beat", "if joins == '1' or", "if true or"),)),
    Build("a running job is reported as waiting", (("jobs_where", _RUNS, ""),)),
    Build("a worker with an expired lease gets jobs", (("jobs_where", _ALIVE, "'-inf'"),)),
    Build(
        "a reserve call forgets its jobs",
        (("jobs_reserve", "if again or offered > known then", "if false then"),),
    ),
)


def test_a_queue_matches_its_model(simulated: Server) -> None:
    check(QueueMachine, simulated, Build())


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_broken_queue_is_caught(simulated: Server, mutant: Build) -> None:
    check_caught(QueueMachine, simulated, mutant)
