"""Which queue gets the free places: the first that has jobs, or each its share by weight.

Partitions of one queue are a family: together they have its place in the order, or its share, and they take turns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import groupby

from lockwork.worker.execution.queue_state import QueueState

FetchOrder = Callable[[Sequence[QueueState], int], list[tuple[QueueState, int]]]
"""Whom to ask, in order, and for how many jobs at the most."""


def chosen(*, weighted: bool, in_turn: bool) -> FetchOrder:
    """How to share places; `in_turn`: among queues of which some have partitions."""
    if in_turn:
        return by_weight_in_turn if weighted else strict_in_turn
    return by_weight if weighted else strict


def strict(awake: Sequence[QueueState], places: int) -> list[tuple[QueueState, int]]:
    """All to the first; the next gets what that leaves."""
    return [(source, places) for source in awake]


def strict_in_turn(awake: Sequence[QueueState], places: int) -> list[tuple[QueueState, int]]:
    """The same, but in a family all goes to the one that was its first the longest ago."""
    found: list[tuple[QueueState, int]] = []
    for _, some in groupby(awake, key=lambda source: source.family or source.name):
        family = sorted(some, key=lambda source: source.turn)
        family[0].turn = family[-1].turn + 1
        found += [(source, places) for source in family]
    return found


def by_weight(awake: Sequence[QueueState], places: int) -> list[tuple[QueueState, int]]:
    """A share for each by its weight; what is no whole place yet is kept for the next time, so nobody starves.

    The caller that takes jobs must subtract them from the queue's credit, and reset that of an empty queue.
    """
    return _shares(awake, places, [source.weight for source in awake])


def by_weight_in_turn(awake: Sequence[QueueState], places: int) -> list[tuple[QueueState, int]]:
    """The same, but those of a family share its weight, however many of them are awake."""
    sizes = Counter(source.family or source.name for source in awake)
    return _shares(awake, places, [source.weight / sizes[source.family or source.name] for source in awake])


def _shares(awake: Sequence[QueueState], places: int, weights: Sequence[float]) -> list[tuple[QueueState, int]]:
    whole = sum(weights)
    for source, weight in zip(awake, weights, strict=True):
        source.credit += places * weight / whole
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
