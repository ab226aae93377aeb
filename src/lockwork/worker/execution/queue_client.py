"""A fetcher's calls to the servers of its queues."""

from __future__ import annotations

import asyncio
import contextlib

from lockwork.durations import in_milliseconds
from lockwork.errors import LockworkError, ServerUnavailable
from lockwork.logs import Log
from lockwork.protocol.effects import Protocol
from lockwork.protocol.queue import leases, sessions
from lockwork.protocol.queue.leases import Batch, Leased, SessionOver
from lockwork.protocol.queue.limits import rules
from lockwork.runtime.clock import now
from lockwork.runtime.trying import backoff
from lockwork.worker.execution.contexts import FetchOptions, SessionContext
from lockwork.worker.execution.queue_state import QueueState

log: Log = Log("lockwork.worker")

_REJOIN = 1.0
"""Seconds that a rejoin of a queue may take, and the pause between two rejoins."""


class QueueClient:
    """Sends the calls of one session."""

    def __init__(self, context: SessionContext, options: FetchOptions) -> None:
        self._context = context
        self._known_tasks = options.known_tasks
        self._suspects = options.suspects
        self._lease_ms = in_milliseconds(options.lease or 0.0)

    def claims(self, queue: QueueState) -> bool:
        """Return True if the next request claims parked jobs of all known tasks."""
        return self._known_tasks is not None and queue.claims

    async def reserve(self, queue: QueueState, want: int, *, again: bool) -> Batch:
        """Request jobs; again: repeat the queue's unanswered request. Raises SessionOver if the session has ended."""
        return await self._context.driver.run(self._reserve(queue, want, self._claimed_tasks(queue), again=again))

    async def offered(self, queue: QueueState, batch: Batch) -> Leased | None:
        """Wait until the server wakes the worker or the next job is due; return the job that it offers, if any."""
        return await self._context.driver.run(leases.idle(queue.keys, batch, queue.hints))

    async def answered(self, queue: QueueState) -> None:
        """Wait until the queue's server answers again: a retry by the fetcher itself would delay the other queues."""
        failures = queue.failures
        while True:
            await asyncio.sleep(backoff(failures))
            try:
                await self._context.driver.run(rules(queue.keys))
            except ServerUnavailable:
                failures += 1
            except LockworkError:
                return  # the server answers
            else:
                return

    async def rejoin(self, queue: QueueState) -> None:
        """Join a queue that no longer has the session; raises SessionOver if its server does not accept that."""
        await asyncio.sleep(max(0.0, queue.rejoin_after - now()))
        queue.rejoin_after = now() + _REJOIN
        joining = leases.beat(queue.keys, {self._context.session: True}, self._lease_ms, _REJOIN)
        try:
            await self._context.driver.run(joining)
        except LockworkError:
            raise SessionOver(self._context.session) from None
        log.warning("queue %s did not know this worker process any more; it had no job and joined again", queue.name)

    async def forward_wakeup(self, queue: QueueState, *, awake: bool) -> None:
        """Forward a wake-up to another worker (see `sessions.forward_wakeup`); an error changes nothing."""
        context = self._context
        forwarding = sessions.forward_wakeup(
            queue.keys, context.session, context.channel, queue.deliveries.last, context.window_ms, awake=awake
        )
        with contextlib.suppress(LockworkError):  # the other workers check again soon
            await context.driver.run(forwarding)

    def _reserve(self, queue: QueueState, want: int, tasks: str, *, again: bool) -> Protocol[Batch]:
        session, channel, window_ms = self._context.session, self._context.channel, self._context.window_ms
        if self._suspects:
            # the session runs nothing else, so it may run a suspect
            batch = yield from leases.reserve_suspect(queue.keys, session, queue.request, again=again)
            if batch.jobs:
                return batch
        reserve = leases.reserve(
            queue.keys, session, want, queue.request, channel,
            again=again, last=queue.deliveries.last, tasks=tasks, window_ms=window_ms,
        )  # fmt: skip
        return (yield from reserve)

    def _claimed_tasks(self, queue: QueueState) -> str:
        """Return the tasks whose parked jobs a request claims; "" for most requests."""
        if self._known_tasks is None or not queue.parked:
            return ""
        if not queue.claims:
            return self._known_tasks.of(queue.parked_tasks)
        return self._known_tasks.versions if queue.claim_after else self._known_tasks.names
