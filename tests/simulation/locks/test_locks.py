"""The released build keeps every rule, whatever the seed brings. How to replay one: see simulation/runs.py."""

from __future__ import annotations

import pytest

from simulation.locks import locks
from simulation.seeds import blocks, label
from simulation.server import Server


@pytest.mark.parametrize("seeds", blocks(9), ids=label)
def test_locks_keep_their_rules(simulated: Server, seeds: range) -> None:
    for seed in seeds:
        locks.run(simulated, seed)


def test_a_seed_replays_exactly(simulated: Server) -> None:
    for seed in range(5):
        assert locks.run(simulated, seed).trace == locks.run(simulated, seed).trace
