"""Delay queues keep their rules in every run, and every mutant is caught."""

from __future__ import annotations

import pytest

from simulation.catching import check_caught
from simulation.queues.delay_queues import MUTANTS, delay_queues
from simulation.seeds import blocks, label
from simulation.server import Build, Server

_SEEDS = 800


@pytest.mark.parametrize("seeds", blocks(3), ids=label)
def test_delay_queues_keep_their_rules(simulated: Server, seeds: range) -> None:
    for seed in seeds:
        delay_queues(simulated, seed)


def test_a_seed_replays_exactly(simulated: Server) -> None:
    for seed in range(6):
        assert delay_queues(simulated, seed).trace == delay_queues(simulated, seed).trace


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_broken_delay_queue_is_caught(simulated: Server, mutant: Build) -> None:
    check_caught(lambda seed: delay_queues(simulated, seed, mutant), mutant.name, _SEEDS)
