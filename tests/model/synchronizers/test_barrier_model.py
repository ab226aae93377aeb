"""The barrier against its model, and broken barriers that the model must notice."""

from __future__ import annotations

import pytest

from model.bench import check, check_caught
from model.synchronizers.barrier_machine import BarrierMachine
from simulation.server import Build, Server

_LIVE = "string.format('(%.0f', now), '+inf')"
TWINS = (
    Build(
        "the dead count",
        (("parts/barrier", _LIVE, "'-inf', '+inf')"), ("barrier_arrive", "'-inf', now, 'LIMIT'", "'-inf', 0, 'LIMIT'")),
    ),
    Build(
        "a call that is sent again arrives again",
        (("barrier_arrive", "drop(member[2])", "redis.call('HDEL', barrier, 'a' .. member[2])"),),
    ),
    Build(
        "forgets who passed",
        (("barrier_arrive", "redis.call('HSET', barrier, 'i' .. member[2], cmsgpack.pack({generation, at - 1}))", ""),),
    ),
    Build(
        "withdraws who has passed",
        (
            (
                "barrier_leave",
                "if mine then return {1, mine[2], mine[1]} end",
                "redis.call('HDEL', barrier, 'i' .. ARGV[1])",
            ),
        ),
    ),
    Build("nobody can withdraw", (("barrier_leave", "drop(ARGV[1])", ""),)),
    Build("takes any number of parties", (("barrier_arrive", "if others > 0 and", "if false and"),)),
    Build(
        "opens for one too few", (("barrier_arrive", "if others + 1 < parties then", "if others + 2 < parties then"),)
    ),
    Build("any order", (("barrier_arrive", "return one[1] < other[1]", "return one[1] > other[1]"),)),
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


def test_a_barrier_does_what_its_model_says(simulated: Server) -> None:
    check(BarrierMachine, simulated, Build())


@pytest.mark.parametrize("twin", TWINS, ids=lambda twin: twin.name)
def test_a_broken_barrier_is_caught(simulated: Server, twin: Build) -> None:
    check_caught(BarrierMachine, simulated, twin)
