"""Schedules keep their rules in every run, and every mutant is caught."""

from __future__ import annotations

import pytest

from simulation.catching import check_caught
from simulation.queues.schedules import MUTANTS, run
from simulation.seeds import blocks, label
from simulation.server import Build, Server

_SEEDS = 150


@pytest.mark.parametrize("seeds", blocks(2), ids=label)
def test_schedules_keep_their_rules(simulated: Server, seeds: range) -> None:
    for seed in seeds:
        run(simulated, seed)


def test_a_seed_replays_exactly(simulated: Server) -> None:
    for seed in range(6):
        assert run(simulated, seed).trace == run(simulated, seed).trace


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_broken_build_is_caught(simulated: Server, mutant: Build) -> None:
    check_caught(lambda seed: run(simulated, seed, mutant), mutant.name, _SEEDS)
