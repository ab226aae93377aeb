"""The parts of a worker process that run jobs, put together for its orders, and how they come to their end."""

from __future__ import annotations

import asyncio
import contextlib
from random import random

from lockwork.app.lockwork import Lockwork
from lockwork.durations import in_milliseconds
from lockwork.errors import LockworkError
from lockwork.injection.calling import Caller
from lockwork.jobs.current import QueueContext
from lockwork.logs import Log
from lockwork.protocol.keys import QueueKeys, channel
from lockwork.protocol.queues import leases, sessions
from lockwork.protocol.queues.leases import Buried
from lockwork.runtime.async_driver import AsyncDriver
from lockwork.worker.environment import log_buried
from lockwork.worker.execution import fetch_order
from lockwork.worker.execution.executor import Executor, cancel
from lockwork.worker.execution.fetcher import Fetcher
from lockwork.worker.execution.job_log import JobLog
from lockwork.worker.execution.loop_watch import LoopWatch
from lockwork.worker.execution.queue_state import QueueState
from lockwork.worker.execution.runner_pool import RunnerPool
from lockwork.worker.execution.settler import Settler
from lockwork.worker.execution.slots import WorkerSlots
from lockwork.worker.execution.threads import ThreadPool
from lockwork.worker.ipc.hard_timeouts import TimeLimits
from lockwork.worker.ipc.messages import Control, Reporter, RunnerReports
from lockwork.worker.process.hook_listener import HookListener
from lockwork.worker.settings import WORN, ProcessSettings, WorkerOptions

log: Log = Log("lockwork.worker")

_MOMENT = 0.2
"""Seconds in which the other processes of a supervisor that was killed learn of it, too: none shall take our jobs."""
_LAST_WORDS = 1.5
"""Seconds to settle what was given back: the supervisor kills us soon, and what was set up has to be taken down."""


class Wiring:
    """The parts of a child that run jobs, put together for its orders."""

    def __init__(
        self,
        app: Lockwork,
        driver: AsyncDriver,
        orders: ProcessSettings,
        reporter: Reporter,
        threads: ThreadPool,
        caller: Caller,
        control: Control,
    ) -> None:
        options = orders.options
        self._driver = driver
        self._window_ms = window_ms = in_milliseconds(app.config.result_ttl)
        self.lanes: WorkerSlots = WorkerSlots(options.concurrency)
        self.processes: RunnerPool = RunnerPool(orders, RunnerReports(reporter))
        self.job_log: JobLog = JobLog()
        self._loop_watch = LoopWatch(self.lanes)
        self.lanes.on_start = self._loop_watch.begin
        _warn_of_large_batches(app, options)
        self.executors: list[Executor] = []
        self.settlers: list[Settler] = []
        self.hearing: list[asyncio.Task[None]] = []
        sources: list[QueueState] = []
        # heard on this loop, so that no thread stands between a queue's word and its next job
        heard = channel(app.config.prefix, orders.session)
        hearing = app.runtime.engine.hearing(heard)
        self.hearing.append(asyncio.create_task(hearing.run(), name="lockwork-hear"))
        weights = options.weights or [1] * len(options.queues)
        served = [
            (name, queue, weight)
            for queue, weight in zip(options.queues, weights, strict=True)
            for name in app.config.partitions.names(queue)
        ]
        for name, family, weight in served:
            if name in orders.without:
                continue
            keys = QueueKeys(app.config.prefix, name)
            settler = Settler(driver, keys, orders.session, window_ms)
            desk = QueueContext(name, keys, app.runtime, orders.session, app.config.max_result)
            limits = TimeLimits(reporter, name)
            executor = Executor(
                desk,
                app.registry,
                app.config,
                settler,
                threads,
                caller,
                self.lanes,
                self.job_log,
                self.processes,
                limits,
            )
            listening = cancel(driver, desk, self.lanes, executor)
            self.hearing.append(asyncio.create_task(listening, name="lockwork-cancel"))
            self.settlers.append(settler)
            self.executors.append(executor)
            # each process begins with another partition
            turn = random()  # noqa: S311 - no secret
            sources.append(QueueState(name, keys, executor, weight, family, turn, settler=settler))
        self.fetcher: Fetcher = Fetcher(
            driver,
            sources,
            orders.session,
            heard,
            self.lanes,
            window_ms,
            fetch_order.chosen(weighted=options.weights is not None, in_turn=len(served) > len(options.queues)),
            max_jobs=1 if options.once else None,
            settled=self.settled if options.burst else None,
            recycle_after=options.max_jobs,
            on_recycle=lambda: reporter.tell(WORN),
            orphaned=control.alone,
        )
        desks = {executor.desk.queue: executor.desk for executor in self.executors}
        self.listener: HookListener = HookListener(control.ended, desks, app.registry.context.hooks)

    async def settled(self) -> bool:
        """Wait until all outcomes are on the server; then it is true."""
        for settler in self.settlers:
            await settler.drained()
        return True

    async def idle(self) -> None:
        """Wait until nothing runs."""
        while self.lanes.running:
            await self.lanes.freed()
        await self.listener.idle()

    def hurry(self) -> None:
        """No more jobs are fetched, so batches need not wait for any."""
        for executor in self.executors:
            executor.hurry()

    async def done(self, fetching: asyncio.Task[None]) -> None:
        """Wait until nothing is fetched, nothing runs, and what became of the jobs is on the server."""
        await asyncio.wait([fetching])
        await self.idle()
        await self.settled()

    async def give_up(self, *, counted: bool) -> None:
        """End what still runs, and give it back; `counted`: only what has not begun; the rest counts as an attempt."""
        for listening in self.hearing:
            listening.cancel()
        await asyncio.gather(*self.hearing, return_exceptions=True)
        for executor in self.executors:
            executor.giving_back, executor.counting = True, counted
        self.lanes.cancel()
        await self.lanes.close()
        await self.processes.close()
        self.job_log.close()
        self._loop_watch.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_WORDS):
                await self.settled()

    async def close(self) -> None:
        """Tell hooks of others' jobs nothing more."""
        await self.listener.close()

    async def end_session(self) -> None:
        """End it as a supervisor does for a process that has died, if it is certain that no job runs here any more."""
        if any(executor.abandoned for executor in self.executors) or any(settler.busy for settler in self.settlers):
            return  # its lease runs out
        await asyncio.sleep(_MOMENT)
        try:
            for executor in self.executors:
                await self._recover(executor.desk)
        except LockworkError as error:
            log.error("the jobs of this worker process could not be given back: %s", error)

    async def _recover(self, desk: QueueContext) -> None:
        dead: list[Buried] = []
        ending = leases.recover(desk.keys, desk.session, self._window_ms, gone=True, on_buried=dead.extend)
        await self._driver.run(sessions.within(1.0, ending))
        if dead:
            log_buried(desk.queue, desk.session, dead)
            await self.listener.tell_buried(desk.queue, dead)


def _warn_of_large_batches(app: Lockwork, options: WorkerOptions) -> None:
    for task in app.registry.of(options.queues):
        if task.batching is not None and task.batching.size > options.concurrency and not options.once:
            log.warning(
                "task %r takes up to %d jobs in one call, but this process runs only %d at once: see --concurrency",
                task.name,
                task.batching.size,
                options.concurrency,
            )
