"""Primaries fail over every few seconds, and slots move: no job that a replica has confirmed is lost."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from chaos import tiers
from chaos.failovers import Sentinels, Servers, Shards
from chaos.outages import PARTITIONS, Load, survive
from chaos.report import Report
from chaos.tiers import SEED, TIER
from clusters import clustered
from lockwork.protocol import slots
from sentinels import watched

PIECE = "failovers"
COUNTS = tiers.counts(PIECE)
LOAD = Load(
    COUNTS.jobs,
    COUNTS.failovers,
    COUNTS.seconds,
    every=COUNTS.seconds / (COUNTS.failovers + 0.5),
    moves_every=COUNTS.seconds / (COUNTS.failovers * 4),
    replicas=1,
    turns=COUNTS.jobs // 10,
)
TOPOLOGIES = [name for name in ("cluster", "sentinel") if os.environ.get("LOCKWORK_CHAOS_TOPOLOGY", "") in ("", name)]

pytestmark = pytest.mark.timeout(COUNTS.seconds * 20 + COUNTS.jobs / 20 + 300)


@contextmanager
def troubled(topology: str, folder: Path) -> Iterator[tuple[str, Servers]]:
    """Start servers that can fail over; return their URL."""
    if topology == "sentinel":
        with watched(folder) as found:
            yield found.url, Sentinels(found)
    else:
        moving = [slots.slot(slots.tag(f"default/{number}")) for number in range(PARTITIONS)]
        with clustered(folder, replicas=1) as cluster:
            yield cluster.url, Shards(cluster, [*moving, slots.slot("lock:x")], random.Random(SEED))


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_confirmed_jobs_survive_failovers(topology: str, tmp_path: Path, chaos_url: str, report: Report) -> None:
    with troubled(topology, tmp_path / "servers") as (url, servers):
        outcome = survive(url, servers, chaos_url, tmp_path, LOAD)
    _, unexplained = outcome.repetitions()
    lost = [f"{len(outcome.lost)} confirmed jobs never ran"] if outcome.lost else []
    problems = lost + unexplained + outcome.lock_problems()
    moved = f", {outcome.moves} slots moved" if outcome.moves else ""
    crashes = (len(outcome.failovers) + 1) // 2  # they take turns
    report.run(
        outcome.work(),
        f"{len(outcome.failovers)} failovers, {crashes} of them by SIGKILL to the primary{moved}",
        outcome.found(),
        problems,
    )
    assert problems == []
    assert outcome.status.dead == 0
    # a slow machine enqueues most of the few jobs of this tier during failovers, which confirm few of them
    assert len(outcome.confirmed) > COUNTS.jobs / (10 if TIER == "test" else 2)
