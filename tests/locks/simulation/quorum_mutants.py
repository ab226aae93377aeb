"""Mutants of scripts and of the majority count, which the quorum's checker must catch."""

from __future__ import annotations

from collections.abc import Sequence

from lockwork.protocol.locks.quorum import validity
from simulator.server import Build

BUILDS = (
    Build("the fence is not raised", (("locks/raise_fence", "redis.call('HSET', lock, 'f', fence)", "local _ = 1"),)),
    Build(
        "a renewal reports more than it does",
        (("locks/renew", "reply[index] = deadline", "reply[index] = deadline + 4e5"),),
    ),
    Build("a grant that never ends", (("locks/acquire", "ends = now + lease * 1000", "ends = now + lease * 1000000"),)),
)


def longest(deadlines: Sequence[float], servers: int, lease_ms: int) -> float:
    """One renewed vote is enough."""
    return max(deadlines, default=float("-inf"))


def half(deadlines: Sequence[float], servers: int, lease_ms: int) -> float:
    """One vote too few is enough."""
    return validity(deadlines, servers - 2, lease_ms)


def for_ever(deadlines: Sequence[float], servers: int, lease_ms: int) -> float:
    """A grant lasts until its release."""
    return float("inf")


COUNTINGS = (longest, half, for_ever)
