"""Which seeds a test plays: a fixed number, more on demand, or one that is to be replayed.

The usual seeds include those that `mutants.json` pins, except a few rare ones.
"""

from __future__ import annotations

import os

BLOCK = 40


def blocks(usual: int) -> list[range]:
    """Return the seeds in blocks, one test each: `usual` blocks, or as LOCKWORK_SEED or LOCKWORK_SEEDS say."""
    if one := os.environ.get("LOCKWORK_SEED"):
        return [range(int(one), int(one) + 1)]
    total = int(os.environ.get("LOCKWORK_SEEDS", usual * BLOCK))
    return [range(first, min(first + BLOCK, total)) for first in range(0, total, BLOCK)]


def label(seeds: range) -> str:
    """Name a block."""
    return f"{seeds.start}-{seeds.stop - 1}"
