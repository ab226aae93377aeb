"""Every broken twin is caught, by its own rule or by another, within the seeds of an ordinary run."""

from __future__ import annotations

from itertools import chain

import pytest

from simulation import runs, twins
from simulation.server import Build, Server
from simulation.world import Broken

_SEEDS = 800


def _caught(run: runs.Run, server: Server, twin: Build) -> None:
    for seed in range(_SEEDS):
        try:
            run(server, seed, twin)
        except Broken:
            return
    pytest.fail(f"nobody noticed in {_SEEDS} seeds: {twin.name}")


@pytest.mark.parametrize("twin", list(chain(*twins.LOCKS.values())), ids=lambda twin: twin.name)
def test_a_broken_lock_is_caught(simulated: Server, twin: Build) -> None:
    _caught(runs.locks, simulated, twin)
