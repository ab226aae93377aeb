"""The seeds that a test plays: a fixed number, more on demand, or a single seed for a replay."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

BLOCK = 20


def blocks(usual: int, pinned: Iterable[int]) -> list[Sequence[int]]:
    """Return the seeds in blocks, one test each, unless LOCKWORK_SEED or LOCKWORK_SEEDS is set.

    usual: number of blocks.
    pinned: seeds that catch mutants; the last block also plays those that are not in the blocks.
    """
    if one := os.environ.get("LOCKWORK_SEED"):
        return [[int(one)]]
    total = int(os.environ.get("LOCKWORK_SEEDS", usual * BLOCK))
    *first, last = (range(start, min(start + BLOCK, total)) for start in range(0, total, BLOCK))
    return [*first, [*last, *sorted({seed for seed in pinned if seed >= total})]]


def label(seeds: Sequence[int]) -> str:
    """Name a block by its first seed and the last one in sequence."""
    last = max(seed for at, seed in enumerate(seeds) if seed == seeds[0] + at)
    return f"{seeds[0]}-{last}"
