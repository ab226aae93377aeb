"""Barriers keep their rules in every run, and every mutant is caught."""

from __future__ import annotations

import pytest

from simulation.catching import check_caught
from simulation.seeds import blocks, label
from simulation.server import Build, Server
from simulation.synchronizers.barriers import MUTANTS, barriers

_SEEDS = 300


@pytest.mark.parametrize("seeds", blocks(2), ids=label)
def test_barriers_keep_their_rules(simulated: Server, seeds: range) -> None:
    for seed in seeds:
        barriers(simulated, seed)


def test_a_seed_replays_exactly(simulated: Server) -> None:
    for seed in range(6):
        assert barriers(simulated, seed).trace == barriers(simulated, seed).trace


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_broken_barrier_is_caught(simulated: Server, mutant: Build) -> None:
    check_caught(lambda seed: barriers(simulated, seed, mutant), mutant.name, _SEEDS)
