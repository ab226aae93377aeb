"""Mutants of the latch."""

from __future__ import annotations

from simulator.server import Build

_BEFORE = "redis.call('HGET', logs[1 + log_in_use], request) or redis.call('HGET', logs[2 - log_in_use], request)"
MUTANTS = (
    Build(
        "a reset forgets the count",
        (("synchronizers/latch_count", _BEFORE, "redis.call('HGET', logs[1 + log_in_use], request)"),),
    ),
    Build(
        "a call that found it open counts later", (("synchronizers/latch_count", "remember(latch, 'z', request)", ""),)
    ),
    Build("resets twice", (("synchronizers/latch_reset", "if is_known(latch, 'q', request) then", "if false then"),)),
    Build(
        "wakes all waiters each time",
        (
            (
                "synchronizers/latch_count",
                "if remaining == 0 then\n  redis.call('HSET'",
                "if true then\n  redis.call('HSET'",
            ),
        ),
    ),
    Build("wakes the dead", (("synchronizers/latch_count", "if tonumber(place_ends) > now then", "if true then"),)),
    Build("takes any count", (("synchronizers/parts/latch", "return count == size", "return true"),)),
    Build(
        "never forgets", (("synchronizers/parts/latch", "if ends_us <= now then begin", "if ends_us == 0 then begin"),)
    ),
    Build(
        "forgets that a round had opened", (("synchronizers/latch_count", "redis.call('HSET', latch, 'o', round)", ""),)
    ),
)
