"""Every broken twin is caught, by its own rule or by another, within the seeds of an ordinary run."""

from __future__ import annotations

from itertools import chain

import pytest

from simulation import runs, twins
from simulation.catching import check_caught
from simulation.server import Build, Server

_SEEDS = 800


def _caught(run: runs.Run, server: Server, twin: Build) -> None:
    check_caught(lambda seed: run(server, seed, twin), twin.name, _SEEDS)


@pytest.mark.parametrize("twin", list(chain(*twins.LOCKS.values())), ids=lambda twin: twin.name)
def test_a_broken_lock_is_caught(simulated: Server, twin: Build) -> None:
    _caught(runs.locks, simulated, twin)
