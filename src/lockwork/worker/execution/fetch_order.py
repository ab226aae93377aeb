"""Which queue gets the free slots: the first that has jobs, or each its share by weight.

The partitions of one queue are a family: together they have its place in the order, or its share, and take turns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import groupby

from lockwork.worker.execution.queue_state import QueueState

FetchOrder = Callable[[Sequence[QueueState], int], list[tuple[QueueState, int]]]
"""The queues to ask, in order, each with the most jobs to ask for."""


def chosen(*, weighted: bool, in_turn: bool) -> FetchOrder:
    """Return the order to use; `in_turn` if a queue has partitions."""
    if in_turn:
        return by_weight_in_turn if weighted else strict_in_turn
    return by_weight if weighted else strict


def strict(askable: Sequence[QueueState], free: int) -> list[tuple[QueueState, int]]:
    """Offer all slots to the first queue, and what it leaves to the next."""
    return [(queue, free) for queue in askable]


def strict_in_turn(askable: Sequence[QueueState], free: int) -> list[tuple[QueueState, int]]:
    """As `strict`, but the partitions of one queue take turns to be first."""
    found: list[tuple[QueueState, int]] = []
    for _, some in groupby(askable, key=lambda queue: queue.family or queue.name):
        family = sorted(some, key=lambda queue: queue.turn)
        family[0].turn = family[-1].turn + 1
        found += [(queue, free) for queue in family]
    return found


def by_weight(askable: Sequence[QueueState], free: int) -> list[tuple[QueueState, int]]:
    """Share the slots by weight; fractions of a slot are kept as credit for the next time, so no queue starves.

    The caller subtracts the jobs that it gets from the queue's credit, and resets the credit of an empty queue.
    """
    return _shares(askable, free, [queue.weight for queue in askable])


def by_weight_in_turn(askable: Sequence[QueueState], free: int) -> list[tuple[QueueState, int]]:
    """As `by_weight`, but the partitions of one queue share its weight."""
    sizes = Counter(queue.family or queue.name for queue in askable)
    return _shares(askable, free, [queue.weight / sizes[queue.family or queue.name] for queue in askable])


def _shares(askable: Sequence[QueueState], free: int, weights: Sequence[float]) -> list[tuple[QueueState, int]]:
    whole = sum(weights)
    for queue, weight in zip(askable, weights, strict=True):
        queue.credit += free * weight / whole
    ranked = sorted(askable, key=lambda queue: -queue.credit)
    shares, left = [], free
    for queue in ranked:
        share = max(0, min(left, int(queue.credit)))
        shares.append(share)
        left -= share
    # the slots that rounding has left
    while left:
        for at in range(min(left, len(shares))):
            shares[at] += 1
            left -= 1
    return list(zip(ranked, shares, strict=True))
