"""Each run keeps its rules with every seed, replays exactly, and catches its mutants. See `simulator.runs`."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

import mutants
from mutants import Mutant
from queues.simulation import queue_mutants
from simulator.seeds import blocks, label
from simulator.server import Server
from simulator.table import RUNS, Run
from simulator.world import Broken

CAUGHT = "tests/simulator/test_runs.py::test_mutant_is_caught"


@pytest.mark.parametrize(
    ("run", "seeds"),
    [
        pytest.param(run, seeds, id=f"{name}: {label(seeds)}")
        for name, run in RUNS.items()
        for seeds in blocks(run.blocks, mutants.pins(f"{CAUGHT}[{name}: "))
    ],
)
def test_rules_hold(simulated: Server, run: Run, seeds: Sequence[int]) -> None:
    run.check([run.play(simulated, seed) for seed in seeds])


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
def test_seed_replays_exactly(simulated: Server, run: Run) -> None:
    for seed in range(run.replays):
        assert run.play(simulated, seed).trace == run.play(simulated, seed).trace


@pytest.mark.parametrize(
    ("run", "mutant"),
    [pytest.param(run, mutant, id=f"{name}: {mutant.name}") for name, run in RUNS.items() for mutant in run.mutants()],
)
def test_mutant_is_caught(simulated: Server, monkeypatch: pytest.MonkeyPatch, run: Run, mutant: Mutant) -> None:
    mutant.apply(monkeypatch)

    def caught(seed: int) -> bool:
        try:
            run.play(simulated, seed, **mutant.options)
        except Broken:
            return True
        return False

    mutants.check_caught(caught, 800)


def test_rules_of_queues_have_a_mutant_each() -> None:
    """Q8, one enqueue per slot, is judged in the runs of schedules."""
    assert {f"Q{number}" for number in range(1, 12)} - {"Q8"} <= queue_mutants.MUTANTS.keys()


def test_seeds_that_catch_mutants_are_played_by_released_scripts() -> None:
    assert mutants.pins(f"{CAUGHT}[")
