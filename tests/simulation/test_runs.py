"""The released build keeps every rule, whatever the seed brings. How to replay one: see runs.py."""

from __future__ import annotations

import pytest

from simulation import runs
from simulation.seeds import blocks, label
from simulation.server import Server


@pytest.mark.parametrize("seeds", blocks(15), ids=label)
def test_locks_keep_their_rules(simulated: Server, seeds: range) -> None:
    for seed in seeds:
        runs.locks(simulated, seed)


@pytest.mark.parametrize("seeds", blocks(10), ids=label)
def test_queues_keep_their_rules(simulated: Server, seeds: range) -> None:
    for seed in seeds:
        runs.queue(simulated, seed)


@pytest.mark.parametrize("run", [runs.locks, runs.queue], ids=["locks", "queues"])
def test_a_seed_replays_exactly(simulated: Server, run: runs.Run) -> None:
    for seed in range(5):
        assert run(simulated, seed, runs.RELEASED).trace == run(simulated, seed, runs.RELEASED).trace
