"""A queue in a worker's fetcher: its state, and its turn among the queues.

The partitions of one queue are a family: together they have the queue's place in the order, or its share, and take
turns.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from enum import Enum
from itertools import groupby
from typing import Any, TypeVar

from msgspec import Struct, field

from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.messages import Hints
from lockwork.protocol.queue.leases import Batch
from lockwork.runtime.clock import now
from lockwork.worker.execution.deliveries import Deliveries
from lockwork.worker.execution.flow_relay import FlowRelay
from lockwork.worker.execution.settler import Settler
from lockwork.worker.execution.slots import Runner

T = TypeVar("T")

TURN = 0.02
"""Seconds until a partition stops being first in its queue: the server's CPU caches then hold the data of its calls."""

_CLAIM_PAUSE, _CLAIM_RARELY = 1.0, 5.0
"""Minimum and maximum seconds until the next claim of all parked jobs, after a claim without result."""
_MOST_TASKS = 100


class Wakeup:
    """Ends the wait of one asyncio task early."""

    def __init__(self) -> None:
        self._message: asyncio.Future[None] | None = None

    def notify(self) -> None:
        """Wake the asyncio task that waits now."""
        if self._message is not None and not self._message.done():
            self._message.set_result(None)

    async def unless(self, waiting: Coroutine[Any, Any, T] | None = None) -> T | None:
        """Wait for `waiting`, or forever without it; return None as soon as `notify` is called."""
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
    """The fetcher's state for one queue.

    A wake-up that the fetcher cannot use must reach another worker. While the fetcher runs, `WOKEN` is the only state
    with an unanswered wake-up. When the fetcher ends, it must forward a wake-up in every state: the server may
    list the worker as idle, or only this worker may have a timer for the next due job.

    | state | meaning | next state, and when |
    |---|---|---|
    | READY | requested as soon as a slot is free | ASKING; PAUSED: outcomes cannot be settled; FORWARDING: the fetcher ends |
    | WOKEN | as READY, with a wake-up to use or forward | ASKING; FORWARDING: no slot is free, outcomes cannot be settled, or the fetcher ends |
    | ASKING | a request is under way | READY: it brought jobs, or parked jobs can be claimed; SLEEPING and SLEEPING_UNTIL_DUE: it brought none; UNANSWERED: it failed; FORWARDING: the fetcher ends |
    | SLEEPING | the server wakes the worker | WOKEN; READY: a job came with the wake-up, or a burst checks again; FORWARDING: the fetcher ends |
    | SLEEPING_UNTIL_DUE | as SLEEPING, with a timer until the next job is due | WOKEN; READY: a burst checks again; FORWARDING: the fetcher ends |
    | UNANSWERED | backs off, then retries the same request; reserves slots for its jobs (`held`) | WOKEN; FORWARDING: the fetcher ends |
    | PAUSED | waits for a moment because outcomes cannot be settled | READY; FORWARDING: the fetcher ends |
    | FORWARDING | forwards a wake-up; no request runs, because the forwarding call would give its jobs away | READY |
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


class QueueState(Struct, eq=False):
    """A queue or partition, its runner, and its state in the fetcher."""

    name: str
    keys: QueueKeys
    runner: Runner
    weight: int = 1
    """Weight of the whole queue, not of one partition."""
    family: str = ""
    """The queue that has this partition, if the worker serves all partitions under that name."""
    turn: float = 0.0
    """A number that rises each time this partition becomes first in its queue; the lowest is next."""
    turn_ends: float = 0.0
    """End of its time as the first."""
    credit: float = 0.0
    """Slots of its share by weight that the queue has not used yet."""
    settler: Settler | None = None
    relay: FlowRelay | None = None
    """Relays the messages of flows that a fetch has found."""
    state: FetchState = FetchState.READY
    """Change it with `enter`."""
    task: asyncio.Task[None] | None = None
    """The asyncio task that ends a sleeping or forwarding state."""
    request: str = ""
    """The unanswered request, which may have leased jobs and is therefore retried. Empty if there is none."""
    held: int = 0
    """Slots reserved for jobs of that request."""
    deliveries: Deliveries = field(default_factory=Deliveries)
    """The jobs of the queue that this process has read."""
    parked: bool = True
    """True if the queue has jobs of a task that a worker did not know; True until the server denies it."""
    claim_after: float = 0.0
    """Earliest time of the next request that may claim all parked jobs of known tasks."""
    claim_pause: float = 0.0
    """Seconds between two such requests."""
    parked_tasks: set[str] = field(default_factory=set[str])
    """Tasks of received parked jobs; each request claims more jobs of these tasks."""
    failures: int = 0
    """Number of consecutive failed requests."""
    log_after: float = 0.0
    """Earliest time of the next log line about such a failure."""
    rejoin_after: float = 0.0
    """Earliest time of the next rejoin of this queue."""
    next_due: float | None = None
    """Seconds from the last reply until a job is due; None without such a job."""
    hints: Hints = field(default_factory=Hints)
    """Limits the calls that wake-ups without a job can cause."""

    def enter(self, state: FetchState) -> None:
        """Change the state; raises RuntimeError if the table lacks the transition."""
        if state not in TRANSITIONS[self.state]:
            raise RuntimeError(f"queue {self.name} cannot go from {self.state.name} to {state.name}")
        self.state = state

    @property
    def askable(self) -> bool:
        """True if the queue may have jobs and can receive a request."""
        return self.state in ASKABLE

    @property
    def claims(self) -> bool:
        """True if the next request should claim parked jobs."""
        return self.parked and now() >= self.claim_after

    def answered(self, batch: Batch, *, claimed: bool) -> None:
        """Record if the queue has parked jobs, and the time of the next claim. claimed: the request claimed some."""
        self.next_due = batch.next_due
        self.parked = batch.parked
        if not batch.parked or len(self.parked_tasks) > _MOST_TASKS:
            self.parked_tasks.clear()
        self.parked_tasks |= batch.tasks
        if claimed:
            # a request with such jobs may have had no room for jobs of other tasks
            self.claim_pause = 0.0 if batch.tasks else min(_CLAIM_RARELY, 2 * self.claim_pause or _CLAIM_PAUSE)
            self.claim_after = now() + self.claim_pause

    @property
    def unsettled(self) -> bool:
        """True if outcomes wait for the queue's server: new jobs would run twice if the process dies."""
        return self.settler is not None and self.settler.failing


FetchOrder = Callable[[Sequence[QueueState], int], list[tuple[QueueState, int]]]
"""The queues to request from, in order, each with the maximum number of jobs."""


def chosen(*, weighted: bool, in_turn: bool) -> FetchOrder:
    """Return the fetch order; in_turn: a queue has partitions."""
    if in_turn:
        return by_weight_in_turn if weighted else strict_in_turn
    return by_weight if weighted else strict


def strict(askable: Sequence[QueueState], free: int) -> list[tuple[QueueState, int]]:
    """Offer all slots to the first queue, and the remaining slots to the next."""
    return [(queue, free) for queue in askable]


def strict_in_turn(askable: Sequence[QueueState], free: int) -> list[tuple[QueueState, int]]:
    """Offer slots like `strict`, but the partitions of one queue take turns to be first."""
    order: list[tuple[QueueState, int]] = []
    for _, some in groupby(askable, key=lambda queue: queue.family or queue.name):
        family = sorted(some, key=lambda queue: queue.turn)
        first, last = family[0], family[-1]
        if now() < last.turn_ends:
            family = [last, *family[:-1]]
        else:
            first.turn, first.turn_ends = last.turn + 1, now() + TURN
        order += [(queue, free) for queue in family]
    return order


def by_weight(askable: Sequence[QueueState], free: int) -> list[tuple[QueueState, int]]:
    """Share the slots by weight; fractions of a slot are kept as credit for the next time, so no queue starves.

    The caller subtracts the jobs that it gets from the queue's credit, and resets the credit of an empty queue.
    """
    return _shares(askable, free, [queue.weight for queue in askable])


def by_weight_in_turn(askable: Sequence[QueueState], free: int) -> list[tuple[QueueState, int]]:
    """Share the slots like `by_weight`, but the partitions of one queue share its weight."""
    sizes = Counter(queue.family or queue.name for queue in askable)
    return _shares(askable, free, [queue.weight / sizes[queue.family or queue.name] for queue in askable])


def _shares(askable: Sequence[QueueState], free: int, weights: Sequence[float]) -> list[tuple[QueueState, int]]:
    whole = sum(weights)
    for queue, weight in zip(askable, weights, strict=True):
        queue.credit += free * weight / whole
    ranked = sorted(askable, key=lambda queue: -queue.credit)
    shares, remaining = [], free
    for queue in ranked:
        share = max(0, min(remaining, int(queue.credit)))
        shares.append(share)
        remaining -= share
    # distribute the slots that rounding left over
    while remaining:
        for at in range(min(remaining, len(shares))):
            shares[at] += 1
            remaining -= 1
    return list(zip(ranked, shares, strict=True))
