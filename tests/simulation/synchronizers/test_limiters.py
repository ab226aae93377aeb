"""Limiters keep their limits in every run, and every mutant is caught."""

from __future__ import annotations

import pytest

from simulation.catching import check_caught
from simulation.seeds import blocks, label
from simulation.server import Build, Server
from simulation.synchronizers.limiters import MUTANTS, limiters

_SEEDS = 300


@pytest.mark.parametrize("seeds", blocks(2), ids=label)
def test_limiters_keep_their_limits(simulated: Server, seeds: range) -> None:
    for seed in seeds:
        limiters(simulated, seed)


def test_a_seed_replays_exactly(simulated: Server) -> None:
    for seed in range(6):
        assert limiters(simulated, seed).trace == limiters(simulated, seed).trace


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_broken_limiter_is_caught(simulated: Server, mutant: Build) -> None:
    check_caught(lambda seed: limiters(simulated, seed, mutant), mutant.name, _SEEDS)
