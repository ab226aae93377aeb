"""The seeds that a test plays: a fixed number, more on demand, or a single seed for a replay.

The usual seeds include the seeds pinned in `mutants.json`, except a few rare ones.
"""

from __future__ import annotations

import os

BLOCK = 40


def blocks(usual: int) -> list[range]:
    """Return the seeds in blocks, one test each: `usual` blocks, unless LOCKWORK_SEED or LOCKWORK_SEEDS is set."""
    if one := os.environ.get("LOCKWORK_SEED"):
        return [range(int(one), int(one) + 1)]
    total = int(os.environ.get("LOCKWORK_SEEDS", usual * BLOCK))
    return [range(first, min(first + BLOCK, total)) for first in range(0, total, BLOCK)]


def label(seeds: range) -> str:
    """Name a block."""
    return f"{seeds.start}-{seeds.stop - 1}"
