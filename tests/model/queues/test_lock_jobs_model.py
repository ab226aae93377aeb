"""A queue's lock against its model, and broken ones that the model must notice."""

from __future__ import annotations

import pytest

from model.bench import check, check_caught
from model.queues.lock_jobs_machine import LockJobsMachine
from simulation.server import Build, Server

_NAME = "lock_release_push"
MUTANTS = (
    Build("a lease that is over enqueues", ((_NAME, "if left <= 0 then", "if false then"),)),
    Build("any owner may release", ((_NAME, "held[1] ~= owner or held[2] ~= fence or", "not held[3] or"),)),
    Build("a job without the release", ((_NAME, "else\n  pass(held[2], held[4], held[5])", ""),)),
    Build("a finished call sent again is not recognized", ((_NAME, "if again and (", "if false and ("),)),
    Build("an ended job is not recognized", ((_NAME, "redis.call('HEXISTS', results[1], id) == 1", "false"),)),
    Build("the minimum is forgotten", ((_NAME, "if at_least > 0 then", "if false then"),)),
)


def test_a_queues_lock_matches_its_model(simulated: Server) -> None:
    check(LockJobsMachine, simulated, Build())


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_broken_queues_lock_is_caught(simulated: Server, mutant: Build) -> None:
    check_caught(LockJobsMachine, simulated, mutant)
