"""Mutants of the barrier."""

from __future__ import annotations

from simulator.server import Build

_LIVE = "string.format('(%.0f', now), '+inf')"
ONE_BY_ONE = ("synchronizers/parts/barrier", "local BATCH = 100", "local BATCH = 1")
MUTANTS = (
    Build(
        "the dead count",
        (
            ("synchronizers/parts/barrier", _LIVE, "'-inf', '+inf')"),
            ("synchronizers/barrier_arrive", "'-inf', now, 'LIMIT'", "'-inf', 0, 'LIMIT'"),
            ("synchronizers/barrier_arrive", "if opens and expired + remaining > 0 then", "if false then"),
        ),
    ),
    Build(
        "a call that is sent again arrives again",
        (("synchronizers/barrier_arrive", "if passed_generation then return", "if false then return"),),
    ),
    Build(
        "forgets the passed parties",
        (
            (
                "synchronizers/parts/barrier",
                "redis.call('HSET', barrier, 'i' .. request, cmsgpack.pack({generation, index}))",
                "",
            ),
        ),
    ),
    Build(
        "withdraws a passed party",
        (
            (
                "synchronizers/barrier_leave",
                "if generation then return {1, index, generation} end",
                "redis.call('HDEL', barrier, 'i' .. request)",
            ),
        ),
    ),
    Build("no party can withdraw", (("synchronizers/barrier_leave", "remove_arrival(request)", ""),)),
    Build("takes any number of parties", (("synchronizers/barrier_arrive", "if others > 0 and", "if false and"),)),
    Build(
        "any order",
        (("synchronizers/barrier_arrive", "redis.call('HINCRBY', barrier, 't', 1)", "1"),),
    ),
    Build(
        "opens while it notifies",
        (ONE_BY_ONE, ("synchronizers/barrier_arrive", "expired + remaining > 0", "expired > 0")),
    ),
    Build(
        "a party that checks before its wake-up waits",
        (
            ONE_BY_ONE,
            (
                "synchronizers/barrier_arrive",
                "if passed_generation then return",
                "if passed_generation and remaining == 0 then return",
            ),
        ),
    ),
    Build(
        "a place that is not refreshed",
        (
            (
                "synchronizers/barrier_arrive",
                "redis.call('ZADD', places, place_ends, request)",
                "redis.call('ZADD', places, 'NX', place_ends, request)",
            ),
        ),
    ),
)
