"""Fetching: leases jobs of all queues for free slots, and sleeps without polling when there is nothing to do.

An empty queue sleeps without calls until the server wakes the worker. If a wake-up comes when all slots are taken, the
fetcher forwards it to another worker. `FetchState` is the state machine of a queue.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from lockwork.durations import in_milliseconds
from lockwork.errors import LockworkError, ServerRefused, ServerUnavailable
from lockwork.logs import Log
from lockwork.protocol.effects import Protocol
from lockwork.protocol.queue import leases, sessions
from lockwork.protocol.queue.leases import RESERVE_BATCH, Batch, Leased, SessionOver
from lockwork.protocol.queue.limits import rules
from lockwork.runtime.async_driver import AsyncDriver
from lockwork.runtime.clock import now
from lockwork.runtime.replies import unforeseen
from lockwork.runtime.trying import backoff
from lockwork.worker.environment import AGAIN
from lockwork.worker.execution.foreign_calls import TasksOfApp
from lockwork.worker.execution.queue_state import ASLEEP, FetchOrder, FetchState, QueueState, Wakeup
from lockwork.worker.execution.slots import WorkerSlots

log: Log = Log("lockwork.worker")

_UNSETTLED = 1.0
"""Seconds until the next request to a queue whose server refuses outcomes."""
_REJOIN = 1.0
"""Seconds that a rejoin of a queue may take, and the pause between two rejoins."""
_SLEEPING = frozenset({FetchState.SLEEPING, FetchState.SLEEPING_UNTIL_DUE})


class Fetcher:
    """Leases jobs for one session.

    max_jobs: number of jobs after which the fetcher ends.
    settled: if set, the fetcher ends when no queue has a job that can run now; it first awaits `settled`, until the
    server has all outcomes.
    recycle_after: number of jobs after which `on_recycle` is called, once.
    ending: True if this process was asked to end or to be quiet, or if its supervisor is gone and no longer renews the
    session. From then on the fetcher leases nothing, and no job starts.
    shards: the queues are on several servers, some of which may be unreachable.
    lease: lease of the session in seconds; without it, the session never rejoins a queue.
    suspects: the session runs a single job (--once), so that job may be a suspect.
    known_tasks: the tasks whose parked jobs are claimed.
    """

    def __init__(
        self,
        driver: AsyncDriver,
        queues: Sequence[QueueState],
        session: str,
        channel: str,
        slots: WorkerSlots,
        window_ms: int,
        fetch_order: FetchOrder,
        *,
        max_jobs: int | None = None,
        settled: Callable[[], Coroutine[Any, Any, bool]] | None = None,
        recycle_after: int | None = None,
        on_recycle: Callable[[], None] = lambda: None,
        ending: Callable[[], bool] = lambda: False,
        shards: bool = False,
        known_tasks: TasksOfApp | None = None,
        suspects: bool = False,
        lease: float | None = None,
    ) -> None:
        self._driver = driver
        self._queues = queues
        self._session = session
        self._channel = channel
        self._slots = slots
        self._window_ms = window_ms
        self._fetch_order = fetch_order
        self._jobs_left = max_jobs or sys.maxsize
        self._suspects = suspects
        self._settled = settled
        self._recycle_in = recycle_after or sys.maxsize
        self._on_recycle = on_recycle
        self._ending = ending
        self._known_tasks = known_tasks
        self._shards = shards
        self._lease = lease
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
            self._stopped = self._stopped or self._ending()
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
            for queue, most in self._fetch_order(askable, free):
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
            if queue.state is FetchState.WOKEN:
                self._forward_wakeup(queue)
            else:
                self._sleep(queue, FetchState.PAUSED, asyncio.sleep(_UNSETTLED))
            return 0
        else:
            self._requests += 1
            queue.request = f"{self._requests:x}"
        queue.enter(FetchState.ASKING)
        all_tasks = self._known_tasks is not None and queue.claims
        asked = self._reserve(queue, want, self._claims(queue), again=again)
        try:
            batch = await self._driver.run(asked)
        except SessionOver:
            return await self._rejoin(queue)
        except Exception as error:  # noqa: BLE001 - no error may end the jobs that run here
            return self._back_off(queue, want, error)
        jobs = queue.deliveries.read(batch.jobs)
        used = len(jobs) - queue.held
        queue.request, queue.held = "", 0
        queue.answered(batch, claimed=all_tasks)
        if queue.failures:
            queue.failures, queue.log_after = 0, 0.0
            log.info("jobs of queue %s can be fetched again", queue.name)
        if batch.jobs:
            queue.enter(FetchState.READY)
            queue.hints.refund()
            self._start(queue, jobs)
            if len(jobs) < min(want, RESERVE_BATCH):
                await asyncio.sleep(0)  # let the jobs start before the next request to the queue, which has no more
        else:
            self._found_none(queue, batch)
        return used

    def _reserve(self, queue: QueueState, want: int, claims: str, *, again: bool) -> Protocol[Batch]:
        if self._suspects:
            # the session runs nothing else, so it may run a suspect
            batch = yield from leases.reserve_suspect(queue.keys, self._session, queue.request, again=again)
            if batch.jobs:
                return batch
        reserve = leases.reserve(
            queue.keys, self._session, want, queue.request, self._channel,
            again=again, last=queue.deliveries.last, tasks=claims, window_ms=self._window_ms,
        )  # fmt: skip
        return (yield from reserve)

    def _found_none(self, queue: QueueState, batch: Batch) -> None:
        queue.credit = 0.0
        if self._known_tasks is not None and queue.claims:
            queue.enter(FetchState.READY)  # request parked jobs at once
            return
        state = FetchState.SLEEPING if batch.next_due is None else FetchState.SLEEPING_UNTIL_DUE
        self._sleep(queue, state, self._driver.run(leases.idle(queue.keys, batch, queue.hints)))

    def _claims(self, queue: QueueState) -> str:
        """Return the tasks whose parked jobs a request claims; "" for most requests."""
        if self._known_tasks is None or not queue.parked:
            return ""
        if not queue.claims:
            return self._known_tasks.of(queue.parked_tasks)
        return self._known_tasks.versions if queue.claim_after else self._known_tasks.names

    async def _rejoin(self, queue: QueueState) -> int:
        """Rejoin a queue that no longer has the session; return the number of reserved slots that this frees.

        Either the server lost its data, or other workers declared this process dead. If the process has no job of the
        queue, that is harmless. Otherwise raises SessionOver: its jobs may run elsewhere, so the process must end.
        """
        idle = not self._slots.leased(queue.runner) and not (queue.settler and queue.settler.unsettled())
        if self._lease is None or not idle or self._ending():
            raise SessionOver(self._session)
        await asyncio.sleep(max(0.0, queue.rejoin_after - now()))
        queue.rejoin_after = now() + _REJOIN
        joining = leases.beat(queue.keys, {self._session: True}, in_milliseconds(self._lease), _REJOIN)
        try:
            await self._driver.run(joining)
        except LockworkError:
            raise SessionOver(self._session) from None
        log.warning("queue %s did not know this worker process any more; it had no job and joined again", queue.name)
        # the jobs of that request are no longer leased, and a new server may have an earlier clock
        released, queue.request, queue.held = queue.held, "", 0
        queue.deliveries.forget()
        queue.enter(FetchState.READY)
        return -released

    def _start(self, queue: QueueState, jobs: list[Leased]) -> None:
        count = len(jobs)
        queue.credit -= count
        self._all_asked_again = False
        if self._stopped or self._ending():
            # no job has started, so none is counted; in reverse order, because each returns to the front of its list
            for job in reversed(jobs):
                queue.runner.give_back(job)
            self._slots.put_back(count)
            self.stop()
            return
        self._slots.start(jobs, queue.runner)
        recycle, self._recycle_in = self._recycle_in > 0 >= self._recycle_in - count, self._recycle_in - count
        if recycle:
            self._on_recycle()

    def _back_off(self, queue: QueueState, want: int, error: Exception) -> int:
        queue.failures += 1
        if now() >= queue.log_after:
            queue.log_after = now() + AGAIN
            log.warning("jobs of queue %s cannot be fetched: %s", queue.name, error, exc_info=unforeseen(error))
        apart = self._shards and len(self._queues) > 1 and self._jobs_left > RESERVE_BATCH
        self._sleep(
            queue, FetchState.UNANSWERED, self._answered(queue) if apart else asyncio.sleep(backoff(queue.failures))
        )
        # A queue that refuses a request must not keep slots from the others, and neither must one whose server is
        # unreachable while other servers answer. If an earlier try of this call leased jobs anyway, they run in
        # addition.
        if queue.held or apart or isinstance(error, ServerRefused):
            return 0
        queue.held = want
        return want

    async def _answered(self, queue: QueueState) -> None:
        """Wait until the queue's server answers again: the fetcher itself would delay the other queues."""
        tries = queue.failures
        while True:
            await asyncio.sleep(backoff(tries))
            try:
                await self._driver.run(rules(queue.keys))
            except ServerUnavailable:
                tries += 1
            except LockworkError:
                return  # the server answers
            else:
                return

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
        if self._settled is None or any(
            queue.failures or queue.state is FetchState.FORWARDING for queue in self._queues
        ):
            await self._wakeup.unless()
        elif self._slots.running:
            await self._wakeup.unless(self._slots.freed())
        elif self._all_asked_again:
            return True
        elif await self._wakeup.unless(self._settled()):
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
        forwarding = sessions.forward_wakeup(
            queue.keys, self._session, self._channel, queue.deliveries.last, self._window_ms, awake=awake
        )
        try:
            with contextlib.suppress(LockworkError):  # the other workers check again soon
                await self._driver.run(forwarding)
        finally:
            queue.enter(FetchState.READY)
            self._wakeup.notify()

    async def _leave(self) -> None:
        """Tell the server to wake other workers instead of this one."""
        self._stopped = True
        for queue in self._queues:
            if queue.state is not FetchState.FORWARDING:
                self._cancel_sleep(queue)
                # SLEEPING is the only state in which no other worker needs to check the queue
                self._forward(queue, awake=queue.state is not FetchState.SLEEPING)
        await asyncio.gather(*(queue.task for queue in self._queues if queue.task), return_exceptions=True)

    @staticmethod
    def _cancel_sleep(queue: QueueState) -> None:
        if queue.state in ASLEEP and queue.task is not None:
            queue.task.cancel()
            queue.task = None
