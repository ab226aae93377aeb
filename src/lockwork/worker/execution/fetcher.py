"""Fetching: leases jobs of all queues for free places, and sleeps without polling when there is nothing to do.

A queue that was found empty sleeps: the server wakes us for it, and until then it costs nothing. A wake-up that comes
when all places are taken is passed on to another worker.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from lockwork.errors import LockworkError, ServerRefused
from lockwork.logs import Log
from lockwork.protocol.queues import leases, sessions
from lockwork.protocol.queues.leases import RESERVE_BATCH, Leased, SessionOver
from lockwork.runtime.async_driver import AsyncDriver
from lockwork.runtime.clock import now
from lockwork.runtime.replies import unforeseen
from lockwork.runtime.trying import backoff
from lockwork.worker.environment import AGAIN
from lockwork.worker.execution.fetch_order import FetchOrder
from lockwork.worker.execution.queue_state import QueueState, Wakeup
from lockwork.worker.execution.slots import WorkerSlots

log: Log = Log("lockwork.worker")

_UNSETTLED = 1.0
"""Seconds until a queue is asked again whose outcomes the server does not take."""


class Fetcher:
    """Leases jobs for one session.

    `at_most`: jobs after which it ends. `settled`: given, it ends when no queue has a job that could run now, and waits
    with it for what has been done to be on the server. `worn_after`: jobs after which `on_worn` is called, once.
    `alone`: whether nobody keeps the session any more; from then on nothing is leased, and no job begins.
    """

    def __init__(
        self,
        driver: AsyncDriver,
        sources: Sequence[QueueState],
        session: str,
        channel: str,
        lanes: WorkerSlots,
        window_ms: int,
        allot: FetchOrder,
        *,
        at_most: int | None = None,
        settled: Callable[[], Coroutine[Any, Any, bool]] | None = None,
        worn_after: int | None = None,
        on_worn: Callable[[], None] = lambda: None,
        alone: Callable[[], bool] = lambda: False,
    ) -> None:
        self._driver = driver
        self._sources = sources
        self._session = session
        self._channel = channel
        self._lanes = lanes
        self._window_ms = window_ms
        self._allot = allot
        self._left = at_most or sys.maxsize
        self._settled = settled
        self._fresh = worn_after or sys.maxsize
        self._on_worn = on_worn
        self._alone = alone
        self._stopped = False
        self._calm = False
        """Whether all queues were asked once more after the last job's end, and nothing has come since."""
        self._requests = 0
        self._news = Wakeup()

    def stop(self) -> None:
        """Lease nothing more; a call under way is brought to its end, so that no lease is lost sight of."""
        self._stopped = True
        self._news.tell()

    async def run(self) -> None:
        """Fetch until stopped or done; raises SessionOver when the server counts this session as dead."""
        try:
            self._stopped = self._stopped or self._alone()
            while not self._stopped and (self._left or any(source.held for source in self._sources)):
                if await self._asked_again():
                    continue
                if not self._left:
                    await self._news.unless()
                    continue
                places = self._lanes.take_now() or await self._news.unless(self._lanes.take())
                if not places:
                    continue
                awake = [source for source in self._sources if source.awake]
                if awake and not self._stopped:
                    places = await self._fetch(awake, places)
                    self._lanes.put_back(places)
                else:
                    self._lanes.put_back(places)
                    if not self._stopped and await self._rest():
                        return
        finally:
            await self._leave()

    async def _asked_again(self) -> bool:
        """Ask once more what was not answered, in the places kept for that; False when there is no such thing."""
        source = next((source for source in self._sources if source.awake and source.held), None)
        if source is None:
            return False
        used = await self._ask(source, source.held)
        self._left -= used
        self._lanes.put_back(-used)
        return True

    async def _fetch(self, awake: Sequence[QueueState], places: int) -> int:
        """Ask queues for jobs; returns the places that are left."""
        for source, most in self._allot(awake, places):
            want = min(most, places, self._left)
            if want <= 0:
                continue
            used = await self._ask(source, want)
            places -= used
            self._left -= used
            if self._stopped:
                break
        if self._lanes.full:
            for source in self._sources:
                self._pass_on(source)
        return places

    async def _ask(self, source: QueueState, want: int) -> int:
        """Ask one queue; returns how many of the places it takes or keeps."""
        if source.passing is not None:
            # sent again, it would pass on what comes now
            await asyncio.wait([source.passing])
            if self._stopped:
                return 0
        again = source.unsure
        if again:
            want = source.held or want
        elif source.settler is not None and source.settler.failing:
            # what would run now could not be settled either, and would run again if this process dies
            self._pass_on(source)
            self._sleep(source, asyncio.sleep(_UNSETTLED))
            return 0
        else:
            self._requests += 1
            source.request = f"{self._requests:x}"
        source.owed = False
        asked = leases.reserve(
            source.keys, self._session, want, source.request, self._channel,
            again=again, last=source.last, window_ms=self._window_ms,
        )  # fmt: skip
        try:
            batch = await self._driver.run(asked)
        except SessionOver:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, jobs that run here must not end by it
            return self._put_off(source, want, error)
        used = len(batch.jobs) - source.held
        source.unsure, source.held = False, 0
        if source.failures:
            source.failures, source.complaint = 0, 0.0
            log.info("jobs of queue %s can be fetched again", source.name)
        if batch.jobs:
            source.hints.refund()
            self._take(source, batch.jobs)
            if len(batch.jobs) < min(want, RESERVE_BATCH):
                await asyncio.sleep(0)  # they begin before the queue, which has no more, is asked again
        else:
            source.credit = 0.0
            source.registered = True
            source.timed = batch.next_due is not None
            self._sleep(source, self._driver.run(leases.idle(source.keys, batch, source.hints)))
        return used

    def _take(self, source: QueueState, leased: list[Leased]) -> None:
        count = len(leased)
        source.last = leased[-1].fence
        source.credit -= count
        self._calm = False
        if self._alone():
            # none has begun, so none is counted; the last goes back first, each to the front of its list
            for job in reversed(leased):
                source.runner.give_back(job)
            self._lanes.put_back(count)
            self.stop()
            return
        self._lanes.start(leased, source.runner)
        worn, self._fresh = self._fresh > 0 >= self._fresh - count, self._fresh - count
        if worn:
            self._on_worn()

    def _put_off(self, source: QueueState, want: int, error: Exception) -> int:
        source.failures += 1
        if now() >= source.complaint:
            source.complaint = now() + AGAIN
            log.warning("no jobs of queue %s can be fetched: %s", source.name, error, exc_info=unforeseen(error))
        source.unsure = True
        self._sleep(source, asyncio.sleep(backoff(source.failures)))
        # A queue that refuses us must not keep the others' places. Should an earlier try of this very call have leased
        # jobs anyway, they come on top of what runs.
        if source.held or isinstance(error, ServerRefused):
            return 0
        source.held = want
        return want

    def _sleep(self, source: QueueState, waiting: Coroutine[Any, Any, Leased | None]) -> None:
        source.awake = False
        source.sleep = asyncio.create_task(self._asleep(source, waiting), name="lockwork-sleep")
        source.sleep.add_done_callback(lambda _: waiting.close())  # cancelled early, it has not begun to wait

    async def _asleep(self, source: QueueState, waiting: Coroutine[Any, Any, Leased | None]) -> None:
        try:
            offered = await waiting
        except Exception:  # whatever it is, this queue must not sleep for good
            log.exception("waiting for jobs of queue %s failed; the queue is asked again", source.name)
            offered = None
            await asyncio.sleep(backoff(1))
        source.awake = True
        source.owed = source.registered
        if offered is not None and self._may_take(source) and self._lanes.take_one():
            source.owed = source.timed  # should it have no place left, another must know when the next job is due
            self._left -= 1
            self._take(source, [offered])
        self._news.tell()
        if self._lanes.full:
            self._pass_on(source)

    def _may_take(self, source: QueueState) -> bool:
        """Whether a job can begin that nobody has asked for."""
        if self._stopped or (source.settler is not None and source.settler.failing):
            return False
        return self._left > sum(source.held for source in self._sources)

    async def _rest(self) -> bool:
        """Wait until a queue may have jobs; True when there is nothing to wait for."""
        if self._settled is None or any(source.failures for source in self._sources):
            await self._news.unless()
        elif self._lanes.running:
            await self._news.unless(self._lanes.freed())
        elif self._calm:
            return True
        elif await self._news.unless(self._settled()):
            # a job that has just ended may run again at once, or have enqueued others
            self._calm = True
            for source in self._sources:
                self._cancel_sleep(source)
                source.awake = True
        return False

    def _pass_on(self, source: QueueState) -> None:
        """Let another worker have the wake-up that we cannot use."""
        if source.owed:
            source.owed = source.registered = False
            source.passing = asyncio.create_task(self._pass(source, awake=source.awake), name="lockwork-pass")

    async def _pass(self, source: QueueState, *, awake: bool) -> None:
        passing = sessions.forward_wakeup(
            source.keys, self._session, self._channel, source.last, self._window_ms, awake=awake
        )
        try:
            with contextlib.suppress(LockworkError):  # the others look again by themselves before long
                await self._driver.run(passing)
        finally:
            source.passing = None

    async def _leave(self) -> None:
        """Nobody shall be woken here any more."""
        for source in self._sources:
            self._cancel_sleep(source)
            if source.registered:
                source.owed = True
                # another worker need not know when the next job is due
                source.awake = source.awake or source.timed
                self._pass_on(source)
        passing = [source.passing for source in self._sources if source.passing is not None]
        await asyncio.gather(*passing, return_exceptions=True)

    @staticmethod
    def _cancel_sleep(source: QueueState) -> None:
        if source.sleep is not None:
            source.sleep.cancel()
            source.sleep = None
