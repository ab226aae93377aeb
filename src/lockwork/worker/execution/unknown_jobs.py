"""Unknown jobs: jobs that are leased to this worker process although it does not have them.

After a failover, the new server may lack the last writes; it then leases a settled job again.
"""

from __future__ import annotations

import asyncio

from lockwork.errors import LockworkError
from lockwork.logs import Log
from lockwork.protocol.queue import leases
from lockwork.protocol.queue.leases import Outcome
from lockwork.worker.execution.contexts import SessionContext
from lockwork.worker.execution.queue_state import QueueState
from lockwork.worker.execution.settler import Settler

log: Log = Log("lockwork.worker")

PAUSE = 15.0
"""Seconds between two checks; a job that is unknown at both is returned."""


async def return_unknown_jobs(context: SessionContext, queue: QueueState, settler: Settler) -> None:
    """Return unknown jobs of one queue, until cancelled."""
    before: set[tuple[str, bytes]] = set()
    while True:
        await asyncio.sleep(PAUSE)
        own_jobs = [(job.id, job.token) for job in context.slots.leased(queue.runner)]
        own_jobs += [(outcome.id, outcome.token) for outcome in settler.unsettled()]
        try:
            unknown = await context.driver.run(leases.strays(queue.keys, context.session, own_jobs))
        except LockworkError:
            continue  # the heartbeat reports the error
        if queue.request:
            # the jobs of an unanswered request are not unknown
            request = f" {queue.request}".encode()
            unknown = {(id, token) for id, token in unknown if not token.partition(b"@")[0].endswith(request)}
        for id, token in before & unknown:
            log.warning("job %s: the server counts it as running here, but it is not; it returns to its queue", id)
            settler.add(Outcome(id, token, "g"))
        before = unknown
