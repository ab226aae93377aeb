"""Counts of a chaos run: how many jobs, faults and lock cycles each piece has.

`make test` plays the tier `test`, and `make chaos` the tier in TIER. LOCKWORK_CHAOS_KILLS and variables like it change
one count; `make chaos KILLS=50` sets that variable.
"""

from __future__ import annotations

import os
import random
from dataclasses import dataclass, fields, replace

_VARIABLE = "LOCKWORK_CHAOS_"
TIER = os.environ.get(f"{_VARIABLE}TIER", "test")
SEED = int(os.environ.get(f"{_VARIABLE}SEED", "0")) or random.randrange(1 << 30)
"""Chooses the faults. The timing of processes is not repeatable."""


@dataclass(frozen=True)
class Counts:
    """Least counts of one piece. A piece ignores the counts that it has no use for."""

    jobs: int = 0
    kills: int = 0
    """Processes that get SIGKILL."""
    stops: int = 0
    """Processes that get SIGSTOP for longer than their lease."""
    cycles: int = 0
    """Acquisitions of a lock."""
    server_kills: int = 0
    """SIGKILL of the server, for each persistence setting."""
    failovers: int = 0
    """For each topology."""
    seconds: int = 10
    """Time to enqueue the jobs one by one, or before failing servers, and length of each run without another count."""


TIERS: dict[str, dict[str, Counts]] = {
    "test": {
        "jobs": Counts(jobs=3600, kills=3, stops=1),
        "locks": Counts(cycles=5000, kills=1, stops=1),
        "servers": Counts(jobs=1000, server_kills=2, seconds=5),
        "failovers": Counts(jobs=2000, failovers=2, seconds=20),
    },
    "long": {
        "jobs": Counts(jobs=200_000, kills=60, stops=12, seconds=120),
        "locks": Counts(cycles=100_000, kills=20, stops=20, seconds=120),
        "servers": Counts(jobs=20_000, server_kills=30, seconds=90),
        "failovers": Counts(jobs=50_000, failovers=12, seconds=240),
    },
    "nightly": {
        "jobs": Counts(jobs=300_000, kills=1500, stops=400, seconds=120),
        "locks": Counts(cycles=1_000_000, kills=100, stops=150, seconds=60),
        "servers": Counts(jobs=20_000, server_kills=100, seconds=300),
        "failovers": Counts(jobs=50_000, failovers=30, seconds=300),
    },
}


def counts(piece: str) -> Counts:
    """Return the counts of a piece in this run's tier, with the counts that variables set."""
    if TIER not in TIERS:
        raise ValueError(f"there is no tier {TIER!r} of chaos runs: use {', '.join(TIERS)}")
    given = {name: int(value) for name, value in _given().items()}
    return replace(TIERS[TIER][piece], **given)


def command(piece: str) -> str:
    """Return the command that repeats this run of a piece."""
    topology = os.environ.get(f"{_VARIABLE}TOPOLOGY")
    part = f"TOPOLOGY={topology}" if topology else f"PIECE={piece}"
    changed = "".join(f" {name.upper()}={value}" for name, value in _given().items())
    return f"make chaos TIER={TIER} {part} SEED={SEED}{changed}"


def _given() -> dict[str, str]:
    names = [field.name for field in fields(Counts)]
    return {name: value for name in names if (value := os.environ.get(_VARIABLE + name.upper()))}
