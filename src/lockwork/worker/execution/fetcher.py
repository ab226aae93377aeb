"""Fetching: leases jobs of all queues for free slots, and sleeps without polling when there is nothing to do.

A queue that was found empty sleeps: the server wakes the worker for it, and until then it costs nothing. If a wake-up
comes when all slots are taken, the fetcher forwards it to another worker. `FetchState` is the state machine of a queue.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from lockwork.errors import LockworkError, ServerRefused, ServerUnavailable
from lockwork.logs import Log
from lockwork.protocol.queues import leases, sessions
from lockwork.protocol.queues.leases import RESERVE_BATCH, Leased, SessionOver
from lockwork.protocol.queues.limits import rules
from lockwork.runtime.async_driver import AsyncDriver
from lockwork.runtime.clock import now
from lockwork.runtime.replies import unforeseen
from lockwork.runtime.trying import backoff
from lockwork.worker.environment import AGAIN
from lockwork.worker.execution.queue_state import ASLEEP, FetchOrder, FetchState, QueueState, Wakeup
from lockwork.worker.execution.slots import WorkerSlots

log: Log = Log("lockwork.worker")

_UNSETTLED = 1.0
"""Seconds until a queue is asked again whose outcomes the server does not take."""


class Fetcher:
    """Leases jobs for one session.

    `max_jobs`: jobs after which the fetcher ends. `settled`: if given, the fetcher ends when no queue has a job that
    could run now, and first waits with `settled` until all outcomes are on the server. `recycle_after`: jobs after
    which `on_recycle` is called, once. `ending`: whether this process was asked to end or to be quiet, or its
    supervisor is gone, so that nobody renews the session; from then on nothing is leased, and no job starts. `shards`:
    the queues lie on several servers, of which one may be away.
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
    ) -> None:
        self._driver = driver
        self._queues = queues
        self._session = session
        self._channel = channel
        self._slots = slots
        self._window_ms = window_ms
        self._fetch_order = fetch_order
        self._jobs_left = max_jobs or sys.maxsize
        self._settled = settled
        self._recycle_in = recycle_after or sys.maxsize
        self._on_recycle = on_recycle
        self._ending = ending
        self._shards = shards
        self._stopped = False
        self._all_asked_again = False
        """Whether a burst has asked all queues once more after the last job ended."""
        self._requests = 0
        self._wakeup = Wakeup()

    def stop(self) -> None:
        """Lease nothing more; a call under way is awaited, so that no leased job is lost."""
        self._stopped = True
        self._wakeup.notify()

    async def run(self) -> None:
        """Fetch until stopped or done; raises SessionOver when the server counts this session as dead."""
        try:
            self._stopped = self._stopped or self._ending()
            while not self._stopped and (self._jobs_left or any(queue.held for queue in self._queues)):
                if await self._ask_again():
                    continue
                if not self._jobs_left:
                    await self._wakeup.unless()
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

    async def _ask_again(self) -> bool:
        """Send an unanswered request again, for the slots kept for it; return False when there is none."""
        queue = next((queue for queue in self._queues if queue.held and queue.askable), None)
        if queue is None:
            return False
        used = await self._ask(queue, queue.held)
        self._jobs_left -= used
        self._slots.put_back(-used)
        return True

    async def _fetch(self, askable: Sequence[QueueState], free: int) -> int:
        """Ask queues for jobs; returns how many slots are still free."""
        for queue, most in self._fetch_order(askable, free):
            want = min(most, free, self._jobs_left)
            if want <= 0 or not queue.askable:
                continue
            used = await self._ask(queue, want)
            free -= used
            self._jobs_left -= used
            if self._stopped:
                break
        if self._slots.full:
            for queue in self._queues:
                self._forward_wakeup(queue)
        return free

    async def _ask(self, queue: QueueState, want: int) -> int:
        """Ask one queue; returns how many slots its jobs take, or are kept for them."""
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
        asked = leases.reserve(
            queue.keys, self._session, want, queue.request, self._channel,
            again=again, last=queue.last, window_ms=self._window_ms,
        )  # fmt: skip
        try:
            batch = await self._driver.run(asked)
        except SessionOver:
            raise
        except Exception as error:  # noqa: BLE001 - no error may end the jobs that run here
            return self._back_off(queue, want, error)
        used = len(batch.jobs) - queue.held
        queue.request, queue.held = "", 0
        if queue.failures:
            queue.failures, queue.log_after = 0, 0.0
            log.info("jobs of queue %s can be fetched again", queue.name)
        if batch.jobs:
            queue.enter(FetchState.READY)
            queue.hints.refund()
            self._start(queue, batch.jobs)
            if len(batch.jobs) < min(want, RESERVE_BATCH):
                await asyncio.sleep(0)  # the jobs start before the queue, which has no more, is asked again
        else:
            queue.credit = 0.0
            state = FetchState.SLEEPING if batch.next_due is None else FetchState.SLEEPING_UNTIL_DUE
            self._sleep(queue, state, self._driver.run(leases.idle(queue.keys, batch, queue.hints)))
        return used

    def _start(self, queue: QueueState, jobs: list[Leased]) -> None:
        count = len(jobs)
        queue.last = jobs[-1].fence
        queue.credit -= count
        self._all_asked_again = False
        if self._stopped or self._ending():
            # none has started, so none is counted; the last goes back first, each to the front of its list
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
        # A queue that refuses a request, or whose server is away while others are there, must not keep slots from the
        # others. If an earlier try of this very call has leased jobs after all, they come on top of what runs.
        if queue.held or apart or isinstance(error, ServerRefused):
            return 0
        queue.held = want
        return want

    async def _answered(self, queue: QueueState) -> None:
        """Wait until the queue's server answers again: the fetcher itself would keep the other queues waiting."""
        tries = queue.failures
        while True:
            await asyncio.sleep(backoff(tries))
            try:
                await self._driver.run(rules(queue.keys))
            except ServerUnavailable:
                tries += 1
            except LockworkError:
                return  # it answers
            else:
                return

    def _sleep(self, queue: QueueState, state: FetchState, waiting: Coroutine[Any, Any, Leased | None]) -> None:
        queue.enter(state)
        queue.task = asyncio.create_task(self._wake_after(queue, waiting), name="lockwork-sleep")
        queue.task.add_done_callback(lambda _: waiting.close())  # cancelled early, it has not begun to wait

    async def _wake_after(self, queue: QueueState, waiting: Coroutine[Any, Any, Leased | None]) -> None:
        try:
            offered = await waiting
        except Exception:  # whatever it is, this queue must not sleep for good
            log.exception("waiting for jobs of queue %s failed; the worker tries again", queue.name)
            offered = None
            await asyncio.sleep(backoff(1))
        if offered is not None and self._may_start(queue) and self._slots.take_one():
            # without a free slot for the next job, another worker must learn when it is due
            queue.enter(FetchState.READY if queue.state is FetchState.SLEEPING else FetchState.WOKEN)
            self._jobs_left -= 1
            self._start(queue, [offered])
        else:
            queue.enter(FetchState.READY if queue.state is FetchState.PAUSED else FetchState.WOKEN)
        self._wakeup.notify()
        if self._slots.full:
            self._forward_wakeup(queue)

    def _may_start(self, queue: QueueState) -> bool:
        """Whether a job can start that the fetcher did not ask for."""
        if self._stopped or queue.unsettled:
            return False
        return self._jobs_left > sum(each.held for each in self._queues)

    async def _rest(self) -> bool:
        """Wait until a queue may have jobs; return True when there is nothing to wait for."""
        if self._settled is None or any(
            queue.failures or queue.state is FetchState.FORWARDING for queue in self._queues
        ):
            await self._wakeup.unless()
        elif self._slots.running:
            await self._wakeup.unless(self._slots.freed())
        elif self._all_asked_again:
            return True
        elif await self._wakeup.unless(self._settled()):
            # a job that has just ended may run again at once, or have enqueued others
            self._all_asked_again = True
            for queue in self._queues:
                if queue.state in ASLEEP:
                    self._cancel_sleep(queue)
                    queue.enter(FetchState.READY)
        return False

    def _forward_wakeup(self, queue: QueueState) -> None:
        """Let another worker have a wake-up that this one cannot use."""
        if queue.state is FetchState.WOKEN:
            self._forward(queue, awake=True)

    def _forward(self, queue: QueueState, *, awake: bool) -> None:
        queue.enter(FetchState.FORWARDING)
        queue.task = asyncio.create_task(self._send_wakeup(queue, awake=awake), name="lockwork-forward")

    async def _send_wakeup(self, queue: QueueState, *, awake: bool) -> None:
        forwarding = sessions.forward_wakeup(
            queue.keys, self._session, self._channel, queue.last, self._window_ms, awake=awake
        )
        try:
            with contextlib.suppress(LockworkError):  # the other workers check again before long
                await self._driver.run(forwarding)
        finally:
            queue.enter(FetchState.READY)
            self._wakeup.notify()

    async def _leave(self) -> None:
        """Tell the server to wake this worker no more, and another one in its place."""
        self._stopped = True
        for queue in self._queues:
            if queue.state is not FetchState.FORWARDING:
                self._cancel_sleep(queue)
                # SLEEPING is the only state in which no other worker needs to look
                self._forward(queue, awake=queue.state is not FetchState.SLEEPING)
        await asyncio.gather(*(queue.task for queue in self._queues if queue.task), return_exceptions=True)

    @staticmethod
    def _cancel_sleep(queue: QueueState) -> None:
        if queue.state in ASLEEP and queue.task is not None:
            queue.task.cancel()
            queue.task = None
