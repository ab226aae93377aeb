"""What is in a worker's hands against its model, and broken builds that the model must notice."""

from __future__ import annotations

import pytest

from model.bench import check, check_caught
from model.queues.sessions_machine import IdleWorkers, NackAll
from simulation.server import Build, Server


def test_nack_all_matches_its_model(simulated: Server) -> None:
    check(NackAll, simulated, Build())


def test_idle_workers_match_their_model(simulated: Server) -> None:
    check(IdleWorkers, simulated, Build())


@pytest.mark.parametrize(
    "twin",
    [
        Build(
            "returned jobs count",
            (("jobs_recover", "and not died then return nil", "and false then return nil"),),
        ),
        Build("a stop counts no attempt", (("jobs_recover", "attempts and not most and", "attempts and"),)),
        Build("returned jobs go last", (("jobs_recover", "redis.call('LPUSH'", "redis.call('RPUSH'"),)),
        Build(
            "a job returned by its task counts",
            (("jobs_settle", "again = again + 1\n    end", "redis.call('HSET', tries, id, tried)\n    end"),),
        ),
    ],
    ids=lambda twin: twin.name,
)
def test_a_broken_nack_is_caught(simulated: Server, twin: Build) -> None:
    check_caught(NackAll, simulated, twin)


@pytest.mark.parametrize(
    "twin",
    [
        Build("an idle worker wakes another", (("jobs_pass", "if since and since >= 0 and", "if false and"),)),
        Build("a worker that woke up forwards no wake-up", (("jobs_pass", " and not awake", ""),)),
        Build("dead workers are notified", (("parts/wake", "count - heard", "count - 1"),)),
        Build("many dead workers hide the live ones", (("parts/wake", "unheard < 500", "unheard < 100"),)),
    ],
    ids=lambda twin: twin.name,
)
def test_a_broken_sleep_is_caught(simulated: Server, twin: Build) -> None:
    check_caught(IdleWorkers, simulated, twin)
