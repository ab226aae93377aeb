"""A queue in a worker's fetcher: its state, what is known of it, and its turn among the queues.

The partitions of one queue are a family: together they have its place in the order, or its share, and take turns.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import groupby
from typing import Any, TypeVar

from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.messages import Hints
from lockwork.runtime.clock import now
from lockwork.worker.execution.settler import Settler
from lockwork.worker.execution.slots import Runner

T = TypeVar("T")

TURN = 0.02
"""Seconds for which a partition stays the first of its queue: the server's caches then hold what its calls need."""


class Wakeup:
    """Ends the wait of one asyncio task early."""

    def __init__(self) -> None:
        self._message: asyncio.Future[None] | None = None

    def notify(self) -> None:
        """Wake the task that waits now."""
        if self._message is not None and not self._message.done():
            self._message.set_result(None)

    async def unless(self, waiting: Coroutine[Any, Any, T] | None = None) -> T | None:
        """Wait for `waiting`, or without it for ever; return None as soon as `notify` is called."""
        message = self._message = asyncio.get_running_loop().create_future()
        if waiting is None:
            await message
            return None
        task = asyncio.ensure_future(waiting)
        try:
            await asyncio.wait({task, message}, return_when=asyncio.FIRST_COMPLETED)
            return task.result() if task.done() else None
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


class FetchState(Enum):
    """What the fetcher does about one queue.

    A wake-up that the fetcher cannot use must reach another worker. `WOKEN` is the only state that owes the server an
    answer while the fetcher runs. When the fetcher ends, each state owes one: the server may have the worker among
    those to wake, or the worker may be the only one that knows when the next job is due.

    | state | meaning | next state, and when |
    |---|---|---|
    | READY | asked as soon as a slot is free | ASKING; PAUSED: outcomes cannot be settled; FORWARDING: the fetcher ends |
    | WOKEN | as READY, and a wake-up is to be used or forwarded | ASKING; FORWARDING: all slots are taken, outcomes cannot be settled, or the fetcher ends |
    | ASKING | a request is under way | READY: it brought jobs; SLEEPING and SLEEPING_UNTIL_DUE: it brought none; UNANSWERED: it failed; FORWARDING: the fetcher ends |
    | SLEEPING | the server wakes the worker | WOKEN; READY: a job came with the wake-up, or a burst checks again; FORWARDING: the fetcher ends |
    | SLEEPING_UNTIL_DUE | as SLEEPING, and a timer runs until the next job is due | WOKEN; READY: a burst checks again; FORWARDING: the fetcher ends |
    | UNANSWERED | backs off; then the same request is sent again; slots are kept for its jobs (`held`) | WOKEN; FORWARDING: the fetcher ends |
    | PAUSED | waits for a moment because outcomes cannot be settled | READY; FORWARDING: the fetcher ends |
    | FORWARDING | gives a wake-up to another worker; a request would be answered with jobs that this call gives away | READY |
    """  # noqa: E501 - a table

    READY = "ready"
    WOKEN = "woken"
    ASKING = "asking"
    SLEEPING = "sleeping"
    SLEEPING_UNTIL_DUE = "sleeping until due"
    UNANSWERED = "unanswered"
    PAUSED = "paused"
    FORWARDING = "forwarding"


_S = FetchState
TRANSITIONS: dict[FetchState, frozenset[FetchState]] = {
    _S.READY: frozenset({_S.ASKING, _S.PAUSED, _S.FORWARDING}),
    _S.WOKEN: frozenset({_S.ASKING, _S.FORWARDING}),
    _S.ASKING: frozenset({_S.READY, _S.SLEEPING, _S.SLEEPING_UNTIL_DUE, _S.UNANSWERED, _S.FORWARDING}),
    _S.SLEEPING: frozenset({_S.WOKEN, _S.READY, _S.FORWARDING}),
    _S.SLEEPING_UNTIL_DUE: frozenset({_S.WOKEN, _S.READY, _S.FORWARDING}),
    _S.UNANSWERED: frozenset({_S.WOKEN, _S.FORWARDING}),
    _S.PAUSED: frozenset({_S.READY, _S.FORWARDING}),
    _S.FORWARDING: frozenset({_S.READY}),
}
"""The table of `FetchState`, for `QueueState.enter`."""
ASKABLE = frozenset({_S.READY, _S.WOKEN})
ASLEEP = frozenset({_S.SLEEPING, _S.SLEEPING_UNTIL_DUE, _S.UNANSWERED, _S.PAUSED})


@dataclass(slots=True, eq=False)
class QueueState:
    """A queue or partition, who runs its jobs, and what the fetcher knows of it."""

    name: str
    keys: QueueKeys
    runner: Runner
    weight: int = 1
    """The weight of the whole queue, not of one partition."""
    family: str = ""
    """The queue of which this is a partition, if the worker serves all of them under that name."""
    turn: float = 0.0
    """A number that rises each time this partition becomes the first of its queue; the lowest is next."""
    turn_ends: float = 0.0
    """Until when it stays the first."""
    credit: float = 0.0
    """Slots that the queue has not used yet, of its share by weight."""
    settler: Settler | None = None
    state: FetchState = FetchState.READY
    """Change it with `enter`."""
    task: asyncio.Task[None] | None = None
    """What ends the state, when that is a sleep or forwarding."""
    request: str = ""
    """The request that has no answer yet: it may have leased jobs, so it is sent again. Empty if there is none."""
    held: int = 0
    """Slots kept for the jobs which that request may have leased."""
    last: int = 0
    """The highest fence of the jobs that came from the queue."""
    failures: int = 0
    """Requests in a row that failed."""
    log_after: float = 0.0
    """When such a failure may be logged again."""
    hints: Hints = field(default_factory=Hints)
    """Limits the calls that wake-ups without a job can cause."""

    def enter(self, state: FetchState) -> None:
        """Change the state; raises RuntimeError if the table has no such transition."""
        if state not in TRANSITIONS[self.state]:
            raise RuntimeError(f"queue {self.name} cannot go from {self.state.name} to {state.name}")
        self.state = state

    @property
    def askable(self) -> bool:
        """Whether it may have jobs, and may be asked for them."""
        return self.state in ASKABLE

    @property
    def unsettled(self) -> bool:
        """Whether outcomes of the queue wait for the server: jobs that run now would run again if the process dies."""
        return self.settler is not None and self.settler.failing


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
        first, last = family[0], family[-1]
        if now() < last.turn_ends:
            family = [last, *family[:-1]]
        else:
            first.turn, first.turn_ends = last.turn + 1, now() + TURN
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
