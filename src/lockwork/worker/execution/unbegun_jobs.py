"""Returns unstarted jobs to the queue while another job blocks the event loop, so that other workers run them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from lockwork.logs import Log
from lockwork.protocol.effects import Protocol
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import leases, sessions
from lockwork.protocol.queue.leases import Leased, Outcome
from lockwork.runtime.runtime import Runtime
from lockwork.words import several
from lockwork.worker.execution.contexts import SessionContext
from lockwork.worker.execution.deliveries import Deliveries
from lockwork.worker.execution.queue_state import FetchState, QueueState

log: Log = Log("lockwork.worker")

_PATIENCE = 1.0
"""Seconds to wait for the server."""
_KEEPS_OFFERS = 1 << 53
"""A fence above all others. `forward_wakeup` then returns no offer; offers return as unread deliveries."""


class UnbegunJobs:
    """Takes unstarted jobs from a blocked process, on the thread that watches the event loop.

    The jobs are in the slots' inbox, or in messages that the loop has not read. The thread uses a blocking connection,
    so it does not need the loop. When the loop continues, it calls `on_returned` for each queue, with the number of
    slots to put back.
    """

    def __init__(
        self,
        runtime: Runtime,
        context: SessionContext,
        queues: Sequence[QueueState],
        on_returned: Callable[[QueueState, int], None],
    ) -> None:
        self._runtime = runtime
        self._context = context
        self._queues = queues
        self._on_returned = on_returned
        self._loop = asyncio.get_running_loop()

    def give_back(self, still_blocked: Callable[[], bool]) -> None:
        """Return all unstarted jobs; if the server does not accept some, they are returned when the loop continues."""
        inbox = self._context.slots.take_unbegun()
        remaining = {queue: [job for job, runner in inbox if runner is queue.runner] for queue in self._queues}
        slots = {queue: len(jobs) for queue, jobs in remaining.items()}
        blocked = True
        while remaining and blocked:
            for queue, jobs in list(remaining.items()):
                if self._return(queue, jobs, warns=queue in slots):
                    del remaining[queue]
                self._loop.call_soon_threadsafe(self._on_returned, queue, slots.pop(queue, 0))
            blocked = bool(remaining) and still_blocked()
        for queue, jobs in remaining.items():
            for job in jobs:
                self._loop.call_soon_threadsafe(queue.runner.give_back, job)

    def _return(self, queue: QueueState, jobs: list[Leased], *, warns: bool) -> bool:
        """Return unstarted and unread jobs of one queue; return False if the server does not answer."""
        context, awake = self._context, queue.state is not FetchState.SLEEPING
        returning = return_unbegun(
            queue.keys, context.session, context.channel, queue.deliveries, jobs, context.window_ms, awake=awake
        )
        try:
            self._runtime.run(sessions.within(_PATIENCE, returning))
        except Exception as error:  # noqa: BLE001 - whatever it is, the jobs must not be lost by it
            if warns:
                log.warning(
                    "jobs of queue %s cannot be returned while the event loop is blocked: %s", queue.name, error
                )
            return False
        if jobs:
            done = several(len(jobs), "job that had not begun was", "jobs that had not begun were")
            log.info("%s returned to queue %s", done, queue.name)
        return True


def return_unbegun(
    queue: QueueKeys,
    session: str,
    channel: str,
    deliveries: Deliveries,
    jobs: list[Leased],
    window_ms: int,
    *,
    awake: bool,
) -> Protocol[None]:
    """Return `jobs` and the deliveries that the process has not read, which are added to `jobs`.

    First forwards the wake-ups of the process (see `forward_wakeup` for `awake`), so that the server wakes other
    workers.
    """
    yield from sessions.forward_wakeup(queue, session, channel, _KEEPS_OFFERS, window_ms, awake=awake)
    leased = yield from leases.strays(queue, session, [])
    jobs[:0] = deliveries.take_unread(leased)
    # the token identifies one delivery, so jobs that were leased again meanwhile are safe
    yield from leases.settle(queue, session, [Outcome(job.id, job.token, "n") for job in jobs], window_ms)
