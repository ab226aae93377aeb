"""Strays: jobs that are leased to this worker process although it does not have them.

After a failover, the new server may lack the last writes; it then leases a settled job again.
"""

from __future__ import annotations

import asyncio

from lockwork.errors import LockworkError
from lockwork.logs import Log
from lockwork.protocol.queue import leases
from lockwork.protocol.queue.leases import Outcome
from lockwork.runtime.async_driver import AsyncDriver
from lockwork.worker.execution.queue_state import QueueState
from lockwork.worker.execution.settler import Settler
from lockwork.worker.execution.slots import WorkerSlots

log: Log = Log("lockwork.worker")

PAUSE = 15.0
"""Seconds between two checks; a job that is a stray at both is returned."""


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
            continue  # the heartbeat reports the error
        # the jobs of an unanswered request are not strays
        request = f" {queue.request}".encode() if queue.request else None
        found = {
            (id, token) for id, token in found if request is None or not token.partition(b"@")[0].endswith(request)
        }
        for id, token in before & found:
            log.warning("job %s: the server counts it as running here, but it is not; it returns to its queue", id)
            settler.add(Outcome(id, token, "g"))
        before = found
