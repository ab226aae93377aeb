"""The barrier against its model, and broken barriers that the model must notice."""

from __future__ import annotations

import pytest

from model.bench import check, check_caught
from model.synchronizers.barrier_machine import BarrierMachine, StepwiseBarrierMachine
from simulation.server import Build, Server

_LIVE = "string.format('(%.0f', now), '+inf')"
_ONE_BY_ONE = ("parts/barrier", "local STEP = 100", "local STEP = 1")
MUTANTS = (
    Build(
        "the dead count",
        (
            ("parts/barrier", _LIVE, "'-inf', '+inf')"),
            ("barrier_arrive", "'-inf', now, 'LIMIT'", "'-inf', 0, 'LIMIT'"),
            ("barrier_arrive", "if opens and gone + left > 0 then", "if false then"),
        ),
    ),
    Build(
        "a call that is sent again arrives again",
        (("barrier_arrive", "if mine then return", "if false then return"),),
    ),
    Build(
        "forgets the passed parties",
        (("parts/barrier", "redis.call('HSET', barrier, 'i' .. request, cmsgpack.pack({generation, index}))", ""),),
    ),
    Build(
        "withdraws a passed party",
        (
            (
                "barrier_leave",
                "if mine then return {1, mine[2], mine[1]} end",
                "redis.call('HDEL', barrier, 'i' .. request)",
            ),
        ),
    ),
    Build("no party can withdraw", (("barrier_leave", "drop(request)", ""),)),
    Build("takes any number of parties", (("barrier_arrive", "if others > 0 and", "if false and"),)),
    Build(
        "any order",
        (("barrier_arrive", "redis.call('HINCRBY', barrier, 't', 1)", "1"),),
    ),
    Build("opens while it notifies", (_ONE_BY_ONE, ("barrier_arrive", "gone + left > 0", "gone > 0"))),
    Build(
        "a party that checks before its wake-up waits",
        (_ONE_BY_ONE, ("parts/barrier", "if not ticket or", "if true or")),
    ),
    Build(
        "a place that is not refreshed",
        (
            (
                "barrier_arrive",
                "redis.call('ZADD', places, last, request)",
                "redis.call('ZADD', places, 'NX', last, request)",
            ),
        ),
    ),
)


def test_a_barrier_matches_its_model(simulated: Server) -> None:
    check(BarrierMachine, simulated, Build())


def test_it_does_so_when_it_notifies_one_party_a_call(simulated: Server) -> None:
    check(StepwiseBarrierMachine, simulated, Build("one by one", (_ONE_BY_ONE,)))


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_broken_barrier_is_caught(simulated: Server, mutant: Build) -> None:
    check_caught(StepwiseBarrierMachine if _ONE_BY_ONE in mutant.edits else BarrierMachine, simulated, mutant)
