"""Queues with partitions keep their rules in every run, keys and names hold over all; every broken twin is caught."""

from __future__ import annotations

from functools import partial

import pytest

from simulation.catching import check_caught
from simulation.partition_actors import PartitionedPlant
from simulation.partition_twins import PLANTS, SHOPS
from simulation.partition_users import Shop
from simulation.partitioned_queues import play, run
from simulation.seeds import blocks, label
from simulation.server import Server

_SEEDS = 150


@pytest.mark.parametrize("seeds", blocks(2), ids=label)
def test_queues_with_partitions_keep_their_rules(simulated: Server, seeds: range) -> None:
    for seed in seeds:
        run(simulated, seed)


def test_a_seed_replays_exactly(simulated: Server) -> None:
    for seed in range(4):
        assert run(simulated, seed).trace == run(simulated, seed).trace


@pytest.mark.parametrize("twin", [*SHOPS, *PLANTS], ids=lambda twin: twin.__name__)
def test_a_broken_twin_is_caught(simulated: Server, twin: type[Shop | PartitionedPlant]) -> None:
    broken = partial(play, shop=twin) if issubclass(twin, Shop) else partial(play, plant=twin)
    check_caught(lambda seed: broken(simulated, seed), twin.__doc__, _SEEDS)
