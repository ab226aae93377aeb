"""Quorum locks exclude and their fence rises in virtual time, and every broken twin is caught."""

from __future__ import annotations

import pytest

from simulation import quorums
from simulation.quorums import TWINS
from simulation.seeds import blocks, label
from simulation.server import Build, Server
from simulation.world import Broken


@pytest.mark.parametrize("seeds", blocks(3), ids=label)
def test_quorum_locks_keep_their_rules(simulated: Server, seeds: range) -> None:
    granted = sum(quorums.run(simulated, seed).granted for seed in seeds)
    assert granted >= len(seeds), "a run in which nobody gets anything proves nothing"


def test_a_seed_replays_exactly(simulated: Server) -> None:
    for seed in range(5):
        assert quorums.run(simulated, seed).fence == quorums.run(simulated, seed).fence


@pytest.mark.parametrize("twin", TWINS, ids=lambda twin: twin.name)
def test_a_broken_twin_is_caught(simulated: Server, twin: Build) -> None:
    for seed in range(400):
        try:
            quorums.run(simulated, seed, twin)
        except Broken:
            return
    pytest.fail(f"nobody noticed: {twin.name}")
