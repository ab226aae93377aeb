"""One leader at a time and never none for long, in every run; and every mutant is caught."""

from __future__ import annotations

import pytest

from simulation.catching import check_caught
from simulation.locks import elections
from simulation.locks.election_actors import Candidate
from simulation.locks.election_mutants import BUILDS, CANDIDATES
from simulation.runs import RELEASED
from simulation.seeds import blocks, label
from simulation.server import Build, Server

_SEEDS = 400


@pytest.mark.parametrize("seeds", blocks(2), ids=label)
def test_elections_keep_their_rules(simulated: Server, seeds: range) -> None:
    checkers = [elections.play(simulated, seed).checker for seed in seeds]
    assert sum(checker.gains for checker in checkers) >= len(seeds), "a run in which nobody leads proves nothing"
    assert len(seeds) == 1 or sum(checker.filled for checker in checkers) >= len(seeds), "nor one without a follower"


def test_a_seed_replays_exactly(simulated: Server) -> None:
    for seed in range(5):
        assert elections.run(simulated, seed).trace == elections.run(simulated, seed).trace


@pytest.mark.parametrize("mutant", CANDIDATES, ids=lambda mutant: mutant.__name__)
def test_a_broken_candidate_is_caught(simulated: Server, mutant: type[Candidate]) -> None:
    check_caught(lambda seed: elections.play(simulated, seed, RELEASED, mutant), mutant.__doc__, _SEEDS)


@pytest.mark.parametrize("mutant", BUILDS, ids=lambda mutant: mutant.name)
def test_a_broken_script_is_caught(simulated: Server, mutant: Build) -> None:
    check_caught(lambda seed: elections.run(simulated, seed, mutant), mutant.name, _SEEDS)
