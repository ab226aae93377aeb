"""Queues with partitions keep their rules in every run, keys and names hold over all; every mutant is caught."""

from __future__ import annotations

import pytest

from simulation.catching import check_caught
from simulation.queues.partition_actors import PartitionedPlant
from simulation.queues.partition_mutants import LATE, PLANTS, SHOPS
from simulation.queues.partition_users import Shop
from simulation.queues.partitioned_queues import FAULTLESS, play, run
from simulation.seeds import blocks, label
from simulation.server import Server

_SEEDS = 150


@pytest.mark.parametrize("seeds", blocks(1), ids=label)
def test_queues_with_partitions_keep_their_rules(simulated: Server, seeds: range) -> None:
    for seed in seeds:
        run(simulated, seed)


def test_a_seed_replays_exactly(simulated: Server) -> None:
    for seed in range(4):
        assert run(simulated, seed).trace == run(simulated, seed).trace


@pytest.mark.parametrize("shop", SHOPS, ids=lambda shop: shop.__name__)
def test_a_broken_shop_is_caught(simulated: Server, shop: type[Shop]) -> None:
    check_caught(lambda seed: play(simulated, seed, shop=shop), shop.__doc__, _SEEDS)


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
def test_a_broken_worker_is_caught(simulated: Server, plant: type[PartitionedPlant]) -> None:
    check_caught(lambda seed: play(simulated, seed, plant=plant), plant.__doc__, _SEEDS)


@pytest.mark.parametrize("plant", LATE, ids=lambda plant: plant.__name__)
def test_a_worker_that_is_late_is_caught(simulated: Server, plant: type[PartitionedPlant]) -> None:
    check_caught(lambda turn: play(simulated, turn * FAULTLESS, plant=plant), plant.__doc__, _SEEDS)
