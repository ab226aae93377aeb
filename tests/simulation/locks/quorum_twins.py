"""Broken scripts, and broken ways to count a majority, that the quorum's checker must catch."""

from __future__ import annotations

from collections.abc import Sequence

from lockwork.protocol.locks.quorum import validity
from simulation.server import Build

BUILDS = (
    Build("the fence is not raised", (("lock_raise", "redis.call('HSET', lock, 'f', ARGV[3])", "local _ = 1"),)),
    Build(
        "another's grant is taken for one's own",
        (("lock_raise", "held[1] ~= ARGV[1] or held[2] ~= ARGV[2] or deadline", "deadline"),),
    ),
    Build(
        "servers grant what is held",
        (("parts/ask", "if held[1] and deadline > now then", "if held[1] == owner and deadline > now then"),),
    ),
    Build("whoever abandons ends any grant", (("parts/withdraw", "held[1] == owner and held[2] == request and", ""),)),
    Build(
        "whoever renews has it",
        (("lock_renew", "held[1] == ARGV[at] and held[2] == ARGV[at + 1] and deadline > now", "held[1]"),),
    ),
    Build(
        "a renewal says more than it does",
        (("lock_renew", "reply[index] = deadline", "reply[index] = deadline + 4e5"),),
    ),
    Build("a grant that never ends", (("lock_acquire", "ends = now + ms * 1000", "ends = now + ms * 1000000"),)),
)


def longest(deadlines: Sequence[float], servers: int, lease_ms: int) -> float:
    """One renewed vote is enough."""
    return max(deadlines, default=float("-inf"))


def half(deadlines: Sequence[float], servers: int, lease_ms: int) -> float:
    """One vote too few is enough."""
    return validity(deadlines, servers - 2, lease_ms)


def for_ever(deadlines: Sequence[float], servers: int, lease_ms: int) -> float:
    """What was granted once is held until it is released."""
    return float("inf")


COUNTINGS = (longest, half, for_ever)
