"""Locks in shared formats exclude each other and foreign clients in virtual time, and every mutant is caught."""

from __future__ import annotations

import pytest

from simulation.catching import check_caught
from simulation.locks import shared_formats
from simulation.locks.shared_formats import MUTANTS
from simulation.seeds import blocks, label
from simulation.server import Build, Server


@pytest.mark.parametrize("seeds", blocks(4), ids=label)
def test_they_keep_their_rules(simulated: Server, seeds: range) -> None:
    for seed in seeds:
        shared_formats.run(simulated, seed)


def test_a_seed_replays_exactly(simulated: Server) -> None:
    for seed in range(5):
        assert shared_formats.run(simulated, seed).trace == shared_formats.run(simulated, seed).trace


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: f"{mutant.kind}: {mutant.name}")
def test_a_mutant_is_caught(simulated: Server, mutant: Build) -> None:
    check_caught(lambda seed: shared_formats.run(simulated, seed, mutant), mutant.name)
