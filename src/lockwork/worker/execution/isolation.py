"""Isolation: an isolation process runs only suspects, one at a time, so that a crash identifies the job.

A suspect is a job that ran, together with other jobs, in a process that died. The server leases suspects only to
isolation processes (`queue/reserve_suspects.lua`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from lockwork.logs import Log
from lockwork.protocol.queue import leases
from lockwork.protocol.queue.leases import Leased, SessionOver
from lockwork.runtime.clock import now
from lockwork.runtime.replies import unforeseen
from lockwork.runtime.trying import backoff
from lockwork.worker.environment import AGAIN
from lockwork.worker.execution.contexts import SessionContext
from lockwork.worker.execution.queue_state import QueueState, Wakeup

log: Log = Log("lockwork.worker")

_SOON = 0.5
"""Seconds until the next check if no queue has a suspect."""
_IDLE = 3.0
"""Seconds without a suspect until the process ends."""


class IsolationFetcher:
    """Leases suspects for one session, each after the server has the outcome of the previous one.

    It ends after some seconds without a suspect; with `burst`, when none can run now. `settled` waits until the server
    has all outcomes. `ending` and `stop` are as for `Fetcher`.
    """

    def __init__(
        self,
        context: SessionContext,
        queues: Sequence[QueueState],
        *,
        settled: Callable[[], Coroutine[Any, Any, bool]],
        ending: Callable[[], bool],
        burst: bool,
    ) -> None:
        self._driver = context.driver
        self._session = context.session
        self._slots = context.slots
        self._queues = queues
        self._settled = settled
        self._ending = ending
        self._burst = burst
        self._stopped = False
        self._requests = 0
        self._wakeup = Wakeup()

    def check(self, _name: str) -> None:
        """Check the queues at once, because one may no longer have the session: then this process ends."""
        self._wakeup.notify()

    def stop(self) -> None:
        """Lease nothing more; await a running call, so that no leased job is lost."""
        self._stopped = True
        self._wakeup.notify()

    async def run(self) -> None:
        """Run suspects until stopped or done; raises SessionOver if the server counts this session as dead."""
        idle_since = now()
        while not self._stopped and not self._ending():
            ran, pause = await self._turn()
            if ran or pause is not None:
                idle_since = now()
            if ran:
                continue
            if self._burst or now() - idle_since > _IDLE:
                return
            await self._wakeup.unless(asyncio.sleep(_SOON if pause is None else pause))

    async def _turn(self) -> tuple[bool, float | None]:
        """Check each queue once; return True if a suspect ran, and the seconds until the next may run, if any waits."""
        ran, pauses = False, list[float]()
        for queue in self._queues:
            if self._stopped:
                break
            suspect = await self._ask(queue)
            if isinstance(suspect, Leased):
                await self._run(queue, suspect)
                ran = True
            elif suspect is not None:
                pauses.append(suspect)
        return ran, min(pauses, default=None)

    async def _ask(self, queue: QueueState) -> Leased | float | None:
        """Request a suspect from a queue; return it, the seconds until one may run, or None."""
        self._requests += 1
        again = False
        while True:
            request = leases.reserve_suspect(queue.keys, self._session, f"{self._requests:x}", again=again)
            try:
                batch = await self._driver.run(request)
            except SessionOver:
                raise
            except Exception as error:
                again = True
                queue.failures += 1
                if now() >= queue.log_after:
                    queue.log_after = now() + AGAIN
                    log.warning(
                        "suspects of queue %s cannot be fetched: %s", queue.name, error, exc_info=unforeseen(error)
                    )
                await self._wakeup.unless(asyncio.sleep(backoff(queue.failures)))
                if self._stopped:
                    return None  # a job leased by that call returns with the session
            else:
                queue.failures, queue.log_after = 0, 0.0
                return batch.jobs[0] if batch.jobs else batch.next_due

    async def _run(self, queue: QueueState, job: Leased) -> None:
        """Run a job to its outcome, and settle it."""
        if self._stopped or self._ending():
            queue.runner.give_back(job)
            self._stopped = True
            return
        self._slots.take_one()
        self._slots.start([job], queue.runner)
        self._slots.put_back(await self._wakeup.unless(self._slots.take()) or 0)
        if not self._stopped:
            await self._wakeup.unless(self._settled())
