"""That a broken twin is caught: some seed breaks a rule."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from simulation.world import Broken


def check_caught(play: Callable[[int], object], twin: object, seeds: int = 400) -> None:
    """Play one seed after the other until a rule is broken; fails when none is."""
    for seed in range(seeds):
        try:
            play(seed)
        except Broken:
            return
    pytest.fail(f"nobody noticed in {seeds} seeds: {twin}")
