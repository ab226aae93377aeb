"""Multilocks keep every rule in virtual time and never wait in a circle, and every mutant is caught."""

from __future__ import annotations

import pytest

from simulation.catching import check_caught
from simulation.locks import multilocks
from simulation.locks.multilocks import MUTANTS
from simulation.seeds import blocks, label
from simulation.server import Build, Server


@pytest.mark.parametrize("seeds", blocks(2), ids=label)
def test_multilocks_keep_their_rules(simulated: Server, seeds: range) -> None:
    for seed in seeds:
        multilocks.run(simulated, seed)


def test_a_seed_replays_exactly(simulated: Server) -> None:
    for seed in range(5):
        assert multilocks.run(simulated, seed).trace == multilocks.run(simulated, seed).trace


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_is_caught(simulated: Server, mutant: Build) -> None:
    check_caught(lambda seed: multilocks.run(simulated, seed, mutant), mutant.name)
