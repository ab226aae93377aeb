"""The latch against its model, and broken latches that the model must notice."""

from __future__ import annotations

import pytest

from model.bench import check, check_caught
from model.synchronizers.latch_machine import LatchMachine
from simulation.server import Build, Server

_BEFORE = "redis.call('HGET', logs[1 + turn], request) or redis.call('HGET', logs[2 - turn], request)"
MUTANTS = (
    Build(
        "a reset forgets the count",
        (("latch_count", _BEFORE, "redis.call('HGET', logs[1 + turn], request)"),),
    ),
    Build("a call that found it open counts later", (("latch_count", "remember(latch, 'z', request)", ""),)),
    Build("resets twice", (("latch_reset", "if known(latch, 'q', request) then", "if false then"),)),
    Build(
        "wakes all waiters each time",
        (("latch_count", "if left == 0 then\n  redis.call('HSET'", "if true then\n  redis.call('HSET'"),),
    ),
    Build("wakes the dead", (("latch_count", "if tonumber(place) > now then", "if true then"),)),
    Build("takes any count", (("parts/latch", "return count == size", "return true"),)),
    Build("never forgets", (("parts/latch", "if ends <= now then begin", "if ends == 0 then begin"),)),
    Build("forgets that a round had opened", (("latch_count", "redis.call('HSET', latch, 'o', round)", ""),)),
)


def test_a_latch_matches_its_model(simulated: Server) -> None:
    check(LatchMachine, simulated, Build())


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_broken_latch_is_caught(simulated: Server, mutant: Build) -> None:
    check_caught(LatchMachine, simulated, mutant)
