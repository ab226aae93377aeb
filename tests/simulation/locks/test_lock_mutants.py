"""Every mutant is caught, by its own rule or by another, within the seeds of an ordinary run."""

from __future__ import annotations

from itertools import chain

import pytest

from simulation.catching import check_caught
from simulation.locks.lock_mutants import LOCKS
from simulation.locks.locks import run
from simulation.server import Build, Server

_SEEDS = 800


@pytest.mark.parametrize("mutant", list(chain(*LOCKS.values())), ids=lambda mutant: mutant.name)
def test_a_broken_lock_is_caught(simulated: Server, mutant: Build) -> None:
    check_caught(lambda seed: run(simulated, seed, mutant), mutant.name, _SEEDS)
