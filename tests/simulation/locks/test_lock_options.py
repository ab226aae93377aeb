"""Kept, extended, passed on, taken away, held for a minimum: the rules hold, and mutants are caught."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lockwork.runtime.sticky_cache import StickyCache
from simulation.catching import check_caught
from simulation.locks import lock_options
from simulation.locks.lock_options import DoublingKeeper, SharingKeeper, UnsubscribedKeeper
from simulation.runs import RELEASED
from simulation.seeds import blocks, label
from simulation.server import Build, Server

_TELL = "publish(channels .. string.match(held[1], '^[^:]*'), '! look ' .. lock)"
_HELD = "if held[1] and deadline > now then"
_BY_SOMEBODY = "if held[1] and held[1] ~= '' and deadline > now then"

MUTANTS = (
    Build("force release notifies no holder", (("lock_force", _TELL, ""),)),
    Build("a lock is granted before its minimum ends", (("parts/ask", _HELD, _BY_SOMEBODY),)),
    Build("waiters are not notified of a minimum", (("lock_release", "if held[5] then warn(ends) end", ""),)),
    Build("no holder is asked to release", (("parts/ask", "if keeper then", "if false then"),)),
)
KEEPERS = (UnsubscribedKeeper, SharingKeeper, DoublingKeeper)
_SEEDS = 800


@pytest.mark.parametrize("seeds", blocks(2), ids=label)
def test_locks_keep_their_rules_with_every_option(simulated: Server, seeds: range) -> None:
    for seed in seeds:
        lock_options.run(simulated, seed)


def test_a_seed_replays_exactly(simulated: Server) -> None:
    for seed in range(5):
        assert lock_options.run(simulated, seed).trace == lock_options.run(simulated, seed).trace


def _caught(server: Server, mutant: Build, keeper: Callable[[], StickyCache] = StickyCache) -> None:
    check_caught(lambda seed: lock_options.run(server, seed, mutant, keeper), f"{mutant.name}, {keeper}", _SEEDS)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_broken_option_is_caught(simulated: Server, mutant: Build) -> None:
    _caught(simulated, mutant)


@pytest.mark.parametrize("keeper", KEEPERS, ids=lambda keeper: keeper.__name__)
def test_a_broken_keeper_is_caught(simulated: Server, keeper: Callable[[], StickyCache]) -> None:
    _caught(simulated, RELEASED, keeper)
