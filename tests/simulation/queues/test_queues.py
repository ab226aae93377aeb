"""Queues keep their rules, Q1 to Q10, in every run, and every mutant is caught."""

from __future__ import annotations

from itertools import chain

import pytest

from lockwork.protocol.server_clock import ServerClock
from simulation.catching import check_caught
from simulation.queues import queues
from simulation.queues.queue_mutants import MUTANTS
from simulation.seeds import blocks, label
from simulation.server import Build, Server

_SEEDS = 800


@pytest.mark.parametrize("seeds", blocks(4), ids=label)
def test_queues_keep_their_rules(simulated: Server, seeds: range) -> None:
    for seed in seeds:
        queues.run(simulated, seed)


def test_a_seed_replays_exactly(simulated: Server) -> None:
    for seed in range(6):
        assert queues.run(simulated, seed).trace == queues.run(simulated, seed).trace


@pytest.mark.parametrize("mutant", list(chain(*MUTANTS.values())), ids=lambda mutant: mutant.name)
def test_a_broken_queue_is_caught(simulated: Server, mutant: Build) -> None:
    check_caught(lambda seed: queues.run(simulated, seed, mutant), mutant.name, _SEEDS)


def test_a_heartbeat_that_notices_no_step_is_caught(simulated: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """It calls all others dead when the server's clock is set forward by a lease, and their jobs run twice."""
    monkeypatch.setattr(ServerClock, "heard", lambda *_: 0.0)
    check_caught(lambda seed: queues.run(simulated, seed), "no steps", _SEEDS)


def test_every_rule_has_a_mutant() -> None:
    """Q8, one enqueue per slot, is judged in the runs of schedules."""
    assert {f"Q{number}" for number in range(1, 11)} - {"Q8"} <= MUTANTS.keys()
