"""Strays: jobs that are leased to this worker process, and that it does not have.

A server that takes the place of another one may not know the last writes: then a job that was settled is leased again.
"""

from __future__ import annotations

import asyncio

from lockwork.errors import LockworkError
from lockwork.logs import Log
from lockwork.protocol.queues import leases
from lockwork.protocol.queues.leases import Outcome
from lockwork.runtime.async_driver import AsyncDriver
from lockwork.worker.execution.queue_state import QueueState
from lockwork.worker.execution.settler import Settler
from lockwork.worker.execution.slots import WorkerSlots

log: Log = Log("lockwork.worker")

PAUSE = 15.0
"""Seconds between two looks; a job that was a stray at both is returned."""


async def give_back_strays(
    driver: AsyncDriver, session: str, queue: QueueState, settler: Settler, slots: WorkerSlots
) -> None:
    """Return strays of one queue, until cancelled."""
    before: set[tuple[str, bytes]] = set()
    while True:
        await asyncio.sleep(PAUSE)
        known = [(job.id, job.token) for job in slots.leased(queue.runner)]
        known += [(outcome.id, outcome.token) for outcome in settler.unsettled()]
        try:
            found = await driver.run(leases.strays(queue.keys, session, known))
        except LockworkError:
            continue  # the heartbeat says what is wrong
        # the answer to a request that is not there yet brings jobs that are no strays
        request = f" {queue.request}".encode() if queue.request else None
        found = {(id, token) for id, token in found if request is None or not token.endswith(request)}
        for id, token in before & found:
            log.warning("job %s: the server counts it as running here, but it is not; it returns to its queue", id)
            settler.add(Outcome(id, token, "g"))
        before = found
