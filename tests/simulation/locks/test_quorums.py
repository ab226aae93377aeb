"""Quorum locks exclude and their fence rises in virtual time, and every mutant is caught."""

from __future__ import annotations

import pytest

from simulation.catching import check_caught
from simulation.locks import quorums
from simulation.locks.quorum_actors import Counting
from simulation.locks.quorum_mutants import BUILDS, COUNTINGS
from simulation.runs import RELEASED
from simulation.seeds import blocks, label
from simulation.server import Build, Server

_SEEDS = 400


@pytest.mark.parametrize("seeds", blocks(2), ids=label)
def test_quorum_locks_keep_their_rules(simulated: Server, seeds: range) -> None:
    runs = [quorums.run(simulated, seed) for seed in seeds]
    assert sum(run.granted for run in runs) >= len(seeds), "a run in which nobody gets anything proves nothing"
    assert len(seeds) == 1 or sum(run.kept for run in runs) >= len(seeds) / 4, "nor one in which nothing is renewed"


def test_a_seed_replays_exactly(simulated: Server) -> None:
    for seed in range(5):
        assert quorums.run(simulated, seed).trace == quorums.run(simulated, seed).trace


@pytest.mark.parametrize("mutant", BUILDS, ids=lambda mutant: mutant.name)
def test_a_broken_script_is_caught(simulated: Server, mutant: Build) -> None:
    check_caught(lambda seed: quorums.run(simulated, seed, mutant), mutant.name, _SEEDS)


@pytest.mark.parametrize("counting", COUNTINGS, ids=lambda counting: counting.__name__)
def test_a_holder_that_counts_wrongly_is_caught(simulated: Server, counting: Counting) -> None:
    check_caught(lambda seed: quorums.run(simulated, seed, RELEASED, counting), counting.__doc__, _SEEDS)
