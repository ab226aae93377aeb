"""That a mutant is caught: some seed breaks a rule."""

from __future__ import annotations

from collections.abc import Callable

import mutants
from simulation.world import Broken


def check_caught(play: Callable[[int], object], mutant: object, seeds: int = 400) -> None:
    """Fail unless a rule is broken in the run of a seed: the pinned one, or else one below `seeds`."""

    def caught(seed: int) -> bool:
        try:
            play(seed)
        except Broken:
            return True
        return False

    mutants.check_caught(caught, mutant, seeds)
