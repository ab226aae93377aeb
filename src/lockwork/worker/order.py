"""Which queue gets the free places: the first that has jobs, or each its share by weight."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lockwork.worker.source import Source

Allot = Callable[[Sequence[Source], int], list[tuple[Source, int]]]
"""Whom to ask, in order, and for how many jobs at the most."""


def strict(awake: Sequence[Source], places: int) -> list[tuple[Source, int]]:
    """All to the first; the next gets what that leaves."""
    return [(source, places) for source in awake]


def by_weight(awake: Sequence[Source], places: int) -> list[tuple[Source, int]]:
    """A share for each by its weight; what is no whole place yet is kept for the next time, so nobody starves.

    Whoever takes jobs must subtract them from the queue's credit, and reset that of an empty queue.
    """
    whole = sum(source.weight for source in awake)
    for source in awake:
        source.credit += places * source.weight / whole
    ranked = sorted(awake, key=lambda source: -source.credit)
    shares, left = [], places
    for source in ranked:
        share = max(0, min(left, int(source.credit)))
        shares.append(share)
        left -= share
    # the places that rounding has left
    while left:
        for at in range(min(left, len(shares))):
            shares[at] += 1
            left -= 1
    return list(zip(ranked, shares, strict=True))
