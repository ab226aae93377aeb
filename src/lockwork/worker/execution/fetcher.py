"""Fetching: leases jobs of all queues for free slots, and sleeps without polling when there is nothing to do.

An empty queue sleeps without calls until the server wakes the worker. If a wake-up comes when no slot is free, the
fetcher forwards it to another worker. `FetchState` is the state machine of a queue.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine, Sequence
from typing import Any

from lockwork.errors import ServerRefused
from lockwork.logs import Log
from lockwork.protocol.queue.leases import RESERVE_BATCH, Batch, Leased, SessionOver
from lockwork.runtime.clock import now
from lockwork.runtime.replies import unforeseen
from lockwork.runtime.trying import backoff
from lockwork.worker.environment import AGAIN
from lockwork.worker.execution.contexts import FetchOptions, SessionContext
from lockwork.worker.execution.queue_client import QueueClient
from lockwork.worker.execution.queue_state import ASLEEP, FetchState, QueueState, Wakeup

log: Log = Log("lockwork.worker")

_UNSETTLED = 1.0
"""Seconds until the next request to a queue whose server refuses outcomes."""
_SLEEPING = frozenset({FetchState.SLEEPING, FetchState.SLEEPING_UNTIL_DUE})


class Fetcher:
    """Leases jobs of the queues for one session."""

    def __init__(self, context: SessionContext, queues: Sequence[QueueState], options: FetchOptions) -> None:
        self._session = context.session
        self._slots = context.slots
        self._queues = queues
        self._options = options
        self._client = QueueClient(context, options)
        self._jobs_left = options.max_jobs or sys.maxsize
        self._recycle_in = options.recycle_after or sys.maxsize
        self._stopped = False
        self._all_asked_again = False
        """True if a burst has checked all queues again after the last job ended."""
        self._requests = 0
        self._wakeup = Wakeup()

    def check(self, name: str) -> None:
        """Check a sleeping queue, because it may no longer have the session."""
        for queue in self._queues:
            if queue.name == name and queue.state in _SLEEPING:
                self._cancel_sleep(queue)
                queue.enter(FetchState.READY)
        self._wakeup.notify()

    def returned(self, queue: QueueState, count: int) -> None:
        """Put back the slots of jobs that were returned before they began, and check the queue."""
        self._slots.put_back(count)
        self._jobs_left += count
        self._recycle_in += count
        self.check(queue.name)

    def next_due(self) -> float | None:
        """Return the seconds from the last replies until a job is due; None without such a job."""
        return min((queue.next_due for queue in self._queues if queue.next_due is not None), default=None)

    def stop(self) -> None:
        """Lease nothing more; await a running call, so that no leased job is lost."""
        self._stopped = True
        self._wakeup.notify()

    def job_given_back(self) -> None:
        """Fetch one more job, because this worker returned a job that it cannot run."""
        self._jobs_left += 1

    async def run(self) -> None:
        """Fetch until stopped or done; raises SessionOver if a queue counts this session as dead while its jobs run."""
        try:
            self._stopped = self._stopped or self._options.ending()
            while not self._stopped and (self._jobs_left or self._slots.running or self._holds_slots()):
                if await self._ask_again():
                    continue
                if not self._jobs_left:
                    # this worker may be unable to run the job of the wake-up
                    await self._wakeup.unless(None if self._holds_slots() else self._slots.idle())
                    continue
                free = self._slots.take_now() or await self._wakeup.unless(self._slots.take())
                if not free:
                    continue
                askable = [queue for queue in self._queues if queue.askable]
                if askable and not self._stopped:
                    free = await self._fetch(askable, free)
                    self._slots.put_back(free)
                else:
                    self._slots.put_back(free)
                    if not self._stopped and await self._rest():
                        return
        finally:
            await self._leave()

    def _holds_slots(self) -> bool:
        """Return True if slots are reserved for the jobs of an unanswered request."""
        return any(queue.held for queue in self._queues)

    async def _ask_again(self) -> bool:
        """Retry an unanswered request, for its reserved slots; return False if there is none."""
        queue = next((queue for queue in self._queues if queue.held and queue.askable), None)
        if queue is None:
            return False
        used = await self._ask(queue, queue.held)
        self._jobs_left -= used
        self._slots.put_back(-used)
        return True

    async def _fetch(self, askable: Sequence[QueueState], free: int) -> int:
        """Request jobs from queues; return the number of remaining free slots.

        Queues that delivered all requested jobs share the slots that the other queues do not need.
        """
        while askable and free > 0 and self._jobs_left > 0 and not self._stopped:
            plenty: list[QueueState] = []
            for queue, most in self._options.fetch_order(askable, free):
                want = min(most, free, self._jobs_left)
                used = 0
                if want > 0 and queue.askable and not self._stopped:
                    used = await self._ask(queue, want)
                    free -= used
                    self._jobs_left -= used
                if used >= min(want, RESERVE_BATCH):
                    plenty.append(queue)
                else:
                    # the queue cannot use more slots now, so it accumulates no credit
                    queue.credit = min(queue.credit, 1.0)
            askable = [queue for queue in plenty if queue.askable]
        if self._slots.full:
            for queue in self._queues:
                self._forward_wakeup(queue)
        return free

    async def _ask(self, queue: QueueState, want: int) -> int:
        """Request jobs from one queue; return the number of slots that its jobs take or may take."""
        again = bool(queue.request)
        if again:
            want = queue.held or want
        elif queue.unsettled:
            self._pause_unsettled(queue)
            return 0
        else:
            self._requests += 1
            queue.request = f"{self._requests:x}"
        queue.enter(FetchState.ASKING)
        claimed = self._client.claims(queue)
        try:
            batch = await self._client.reserve(queue, want, again=again)
        except SessionOver:
            return await self._rejoin(queue)
        except Exception as error:  # noqa: BLE001 - no error may end the jobs that run here
            return self._back_off(queue, want, error)
        queue.answered(batch, claimed=claimed)
        if queue.relay is not None and queue.relay.found(batch.flow_messages):
            self._all_asked_again = False
        if queue.failures:
            queue.failures, queue.log_after = 0, 0.0
            log.info("jobs of queue %s can be fetched again", queue.name)
        return await self._take(queue, batch, want)

    async def _take(self, queue: QueueState, batch: Batch, want: int) -> int:
        """Start the jobs of a reply, or let the queue sleep; return the number of slots beyond the reserved ones."""
        jobs = queue.deliveries.read(batch.jobs)
        used = len(jobs) - queue.held
        queue.request, queue.held = "", 0
        if batch.jobs:
            queue.enter(FetchState.READY)
            queue.hints.refund()
            self._start(queue, jobs)
            if len(jobs) < min(want, RESERVE_BATCH):
                await asyncio.sleep(0)  # let the jobs start before the next request to the queue, which has no more
            return used
        queue.credit = 0.0
        if self._client.claims(queue):
            queue.enter(FetchState.READY)  # request parked jobs at once
        else:
            state = FetchState.SLEEPING if batch.next_due is None else FetchState.SLEEPING_UNTIL_DUE
            self._sleep(queue, state, self._client.offered(queue, batch))
        return used

    def _pause_unsettled(self, queue: QueueState) -> None:
        """Request no jobs of a queue whose server refuses outcomes."""
        if queue.state is FetchState.WOKEN:
            self._forward_wakeup(queue)
        else:
            self._sleep(queue, FetchState.PAUSED, asyncio.sleep(_UNSETTLED))

    async def _rejoin(self, queue: QueueState) -> int:
        """Rejoin a queue that no longer has the session; return the number of reserved slots that this frees.

        Either the server lost its data, or other workers declared this process dead. If the process has no job of the
        queue, that is harmless. Otherwise raises SessionOver: its jobs may run elsewhere, so the process must end.
        """
        idle = not self._slots.leased(queue.runner) and not (queue.settler and queue.settler.unsettled())
        if self._options.lease is None or not idle or self._options.ending():
            raise SessionOver(self._session)
        await self._client.rejoin(queue)
        # the jobs of that request are no longer leased, and a new server may have an earlier clock
        released, queue.request, queue.held = queue.held, "", 0
        queue.deliveries.forget()
        queue.enter(FetchState.READY)
        return -released

    def _start(self, queue: QueueState, jobs: list[Leased]) -> None:
        count = len(jobs)
        queue.credit -= count
        self._all_asked_again = False
        if self._stopped or self._options.ending():
            # no job has started, so none is counted; in reverse order, because each returns to the front of its list
            for job in reversed(jobs):
                queue.runner.give_back(job)
            self._slots.put_back(count)
            self.stop()
            return
        self._slots.start(jobs, queue.runner)
        recycle, self._recycle_in = self._recycle_in > 0 >= self._recycle_in - count, self._recycle_in - count
        if recycle:
            self._options.on_recycle()

    def _back_off(self, queue: QueueState, want: int, error: Exception) -> int:
        queue.failures += 1
        if now() >= queue.log_after:
            queue.log_after = now() + AGAIN
            log.warning("jobs of queue %s cannot be fetched: %s", queue.name, error, exc_info=unforeseen(error))
        apart = self._options.shards and len(self._queues) > 1 and self._jobs_left > RESERVE_BATCH
        answer = self._client.answered(queue) if apart else asyncio.sleep(backoff(queue.failures))
        self._sleep(queue, FetchState.UNANSWERED, answer)
        # reserve no slots for a queue that refuses requests, or whose server is unreachable while other servers answer:
        # the other queues need them. If an earlier try of this call leased jobs anyway, they run in addition
        if queue.held or apart or isinstance(error, ServerRefused):
            return 0
        queue.held = want
        return want

    def _sleep(self, queue: QueueState, state: FetchState, waiting: Coroutine[Any, Any, Leased | None]) -> None:
        queue.enter(state)
        queue.task = asyncio.create_task(self._wake_after(queue, waiting), name="lockwork-sleep")
        # if cancelled before its first step, the coroutine never awaited `waiting`
        queue.task.add_done_callback(lambda _: waiting.close())

    async def _wake_after(self, queue: QueueState, waiting: Coroutine[Any, Any, Leased | None]) -> None:
        try:
            offered = await waiting
        except Exception:  # after any error, this queue must not sleep forever
            log.exception("waiting for jobs of queue %s failed; the worker tries again", queue.name)
            offered = None
            await asyncio.sleep(backoff(1))
        if offered is not None and self._takes(queue, offered):
            # without a free slot for the next job, another worker must learn its due time
            queue.enter(FetchState.READY if queue.state is FetchState.SLEEPING else FetchState.WOKEN)
            self._jobs_left -= 1
            self._start(queue, [offered])
        else:
            queue.enter(FetchState.READY if queue.state is FetchState.PAUSED else FetchState.WOKEN)
        self._wakeup.notify()
        if self._slots.full:
            self._forward_wakeup(queue)

    def _takes(self, queue: QueueState, offered: Leased) -> bool:
        """Take a slot for an offered job that may start."""
        if not self._may_start(queue) or not self._slots.take_one():
            return False
        if queue.deliveries.read([offered]):
            return True
        self._slots.put_back(1)
        return False

    def _may_start(self, queue: QueueState) -> bool:
        """Return True if a job may start that the fetcher did not request."""
        if self._stopped or queue.unsettled:
            return False
        return self._jobs_left > sum(each.held for each in self._queues)

    async def _rest(self) -> bool:
        """Wait until a queue may have jobs; return True if there is nothing to wait for."""
        if self._options.settled is None or any(
            queue.failures or queue.state is FetchState.FORWARDING for queue in self._queues
        ):
            await self._wakeup.unless()
        elif self._slots.running:
            await self._wakeup.unless(self._slots.freed())
        elif self._all_asked_again:
            return True
        elif await self._wakeup.unless(self._options.settled()):
            # a job that just ended may be retried at once, or may have enqueued others
            self._all_asked_again = True
            for queue in self._queues:
                if queue.state in ASLEEP:
                    self._cancel_sleep(queue)
                    queue.enter(FetchState.READY)
        return False

    def _forward_wakeup(self, queue: QueueState) -> None:
        """Forward a wake-up that this worker cannot use to another worker."""
        if queue.state is FetchState.WOKEN:
            self._forward(queue, awake=True)

    def _forward(self, queue: QueueState, *, awake: bool) -> None:
        queue.enter(FetchState.FORWARDING)
        queue.task = asyncio.create_task(self._send_wakeup(queue, awake=awake), name="lockwork-forward")

    async def _send_wakeup(self, queue: QueueState, *, awake: bool) -> None:
        try:
            await self._client.forward_wakeup(queue, awake=awake)
        finally:
            queue.enter(FetchState.READY)
            self._wakeup.notify()

    async def _leave(self) -> None:
        """Tell the server to wake other workers instead of this one."""
        self._stopped = True
        for queue in self._queues:
            if queue.state is not FetchState.FORWARDING:
                self._cancel_sleep(queue)
                # another worker must check the queue, except if the state was SLEEPING
                self._forward(queue, awake=queue.state is not FetchState.SLEEPING)
        await asyncio.gather(*(queue.task for queue in self._queues if queue.task), return_exceptions=True)

    @staticmethod
    def _cancel_sleep(queue: QueueState) -> None:
        if queue.state in ASLEEP and queue.task is not None:
            queue.task.cancel()
            queue.task = None
