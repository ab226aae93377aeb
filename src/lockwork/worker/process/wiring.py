"""Wires the parts of a worker process together, and ends them."""

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
from lockwork.protocol.metrics.metrics import Times
from lockwork.protocol.queue import leases, sessions
from lockwork.protocol.queue.leases import Buried
from lockwork.runtime.async_driver import AsyncDriver
from lockwork.worker.environment import log_buried
from lockwork.worker.execution import queue_state
from lockwork.worker.execution.durations import Durations, keep_flushing
from lockwork.worker.execution.executor import Executor, cancel
from lockwork.worker.execution.fetcher import Fetcher
from lockwork.worker.execution.foreign_calls import TasksOfApp
from lockwork.worker.execution.isolation import IsolationFetcher
from lockwork.worker.execution.job_log import JobLog
from lockwork.worker.execution.load import report_load
from lockwork.worker.execution.loop_watch import LoopWatch
from lockwork.worker.execution.queue_state import QueueState
from lockwork.worker.execution.runner_pool import RunnerPool
from lockwork.worker.execution.settler import Settler
from lockwork.worker.execution.slots import WorkerSlots
from lockwork.worker.execution.strays import give_back_strays
from lockwork.worker.execution.threads import ThreadPool
from lockwork.worker.execution.unbegun_jobs import UnbegunJobs
from lockwork.worker.ipc.hard_timeouts import TimeLimits
from lockwork.worker.ipc.messages import Control, JobTimes, Recycle, Reporter
from lockwork.worker.process.hook_listener import HookListener
from lockwork.worker.settings import ProcessSettings, WorkerOptions

log: Log = Log("lockwork.worker")

_MOMENT = 0.2
"""Seconds in which the other processes of a killed supervisor notice its death, so that none takes these jobs."""
_LAST_WORDS = 1.5
"""Time limit in seconds for settling returned jobs before the teardown: the supervisor kills this process soon."""


class Wiring:
    """The parts of a worker process that run jobs."""

    def __init__(
        self,
        app: Lockwork,
        driver: AsyncDriver,
        settings: ProcessSettings,
        reporter: Reporter,
        threads: ThreadPool,
        caller: Caller,
        control: Control,
    ) -> None:
        options = settings.options
        self._driver = driver
        self._window_ms = window_ms = in_milliseconds(app.config.result_ttl)
        self.slots: WorkerSlots = WorkerSlots(options.concurrency)
        self.runner_pool: RunnerPool = RunnerPool(settings, reporter)
        self.job_log: JobLog = JobLog()
        self._loop_watch = LoopWatch(self.slots)
        self.slots.on_start = self._loop_watch.begin
        if not settings.isolates:
            _warn_of_large_batches(app, options)
        self.executors: list[Executor] = []
        self.settlers: list[Settler] = []
        self.durations: list[Durations] = []
        self.listeners: list[asyncio.Task[None]] = []
        queues: list[QueueState] = []
        wakeup_channel = channel(app.config.prefix, settings.session)
        load = report_load(self.slots, reporter)
        self.listeners.append(asyncio.create_task(load, name="lockwork-load"))
        weights = options.weights or [1] * len(options.queues)
        served = [
            (name, family, weight)
            for family, weight in zip(options.queues, weights, strict=True)
            for name in app.config.partitions.names(family)
        ]

        def report_times(queue: str, task: str, wait: Times, run: Times) -> None:
            reporter.report(JobTimes(queue, task, wait.packed(), run.packed()))

        for name, family, weight in served:
            if name in settings.without:
                continue
            keys = QueueKeys(app.config.prefix, name)
            settler = Settler(driver, keys, settings.session, window_ms)
            durations = Durations(keys, settings.session, report_times)
            queue_context = QueueContext(
                name, keys, app.runtime, settings.session, app.config.max_result, durations.overran
            )
            limits = None if settings.embedded else TimeLimits(reporter, name)
            executor = Executor(
                queue_context,
                app.registry,
                app.config,
                settler,
                threads,
                caller,
                self.slots,
                self.job_log,
                None if settings.embedded else self.runner_pool,
                limits,
                durations,
            )
            listening = cancel(driver, queue_context, self.slots, executor)
            self.listeners.append(asyncio.create_task(listening, name="lockwork-cancel"))
            self.settlers.append(settler)
            self.executors.append(executor)
            self.durations.append(durations)
            # each process begins with a different partition
            turn = random()  # noqa: S311 - no secret
            queue = QueueState(name, keys, executor, weight, family, turn, settler=settler)
            queues.append(queue)
            strays = give_back_strays(driver, settings.session, queue, settler, self.slots)
            self.listeners.append(asyncio.create_task(strays, name="lockwork-strays"))
        # received on this loop, so that a wake-up needs no thread switch
        waits = {queue.keys.jobs: (queue.keys.jobs, queue.keys.job_notes) for queue in queues}
        listeners = app.runtime.engine.hearing(wakeup_channel, waits)
        self.listeners.append(asyncio.create_task(listeners.run(), name="lockwork-hear"))
        flushing = keep_flushing(driver, self.durations)
        self.listeners.append(asyncio.create_task(flushing, name="lockwork-durations"))
        self.fetcher: Fetcher | IsolationFetcher = (
            IsolationFetcher(
                driver,
                queues,
                settings.session,
                self.slots,
                settled=self.settled,
                ending=control.ending,
                burst=options.burst,
            )
            if settings.isolates
            else Fetcher(
                driver,
                queues,
                settings.session,
                wakeup_channel,
                self.slots,
                window_ms,
                queue_state.chosen(weighted=options.weights is not None, in_turn=len(served) > len(options.queues)),
                max_jobs=1 if options.once else None,
                settled=self.settled if options.burst else None,
                recycle_after=options.max_jobs,
                on_recycle=lambda: reporter.report(Recycle()),
                ending=control.ending,
                shards=app.runtime.clustered,
                known_tasks=TasksOfApp(app.registry),
                suspects=options.once,
                lease=options.lease,
            )
        )
        self._connect_fetcher(app, settings.session, wakeup_channel, queues, control)
        control.on_session_lost = self.fetcher.check
        queue_contexts = {executor.queue_context.queue: executor.queue_context for executor in self.executors}
        self.listener: HookListener = HookListener(control.ended, queue_contexts, app.registry.context.hooks)

    def _connect_fetcher(
        self, app: Lockwork, session: str, channel: str, queues: list[QueueState], control: Control
    ) -> None:
        """Report returned jobs to the fetcher; the fetcher of an isolation process takes one job at a time."""
        if isinstance(self.fetcher, Fetcher):
            control.next_due = self.fetcher.next_due
            for executor in self.executors:
                executor.on_given_back = self.fetcher.job_given_back
            unbegun = UnbegunJobs(
                app.runtime, session, channel, self.slots, queues, self._window_ms, self.fetcher.returned
            )
            self._loop_watch.on_block = unbegun.give_back

    async def settled(self) -> bool:
        """Wait until all outcomes are on the server; returns True."""
        for settler in self.settlers:
            await settler.drained()
        return True

    async def idle(self) -> None:
        """Wait until nothing runs."""
        await self.slots.idle()
        await self.listener.idle()

    def hurry(self) -> None:
        """Start batches at once, because no more jobs are fetched."""
        for executor in self.executors:
            executor.hurry()

    async def done(self, fetching: asyncio.Task[None]) -> None:
        """Wait until fetching has ended, all jobs have finished, and the server has all outcomes."""
        await asyncio.wait([fetching])
        await self.idle()
        await self.settled()

    async def give_up(self, *, counted: bool) -> None:
        """End and return unfinished jobs. counted: return only unstarted jobs; running jobs count as attempts."""
        for listening in self.listeners:
            listening.cancel()
        await asyncio.gather(*self.listeners, return_exceptions=True)
        for executor in self.executors:
            executor.giving_back, executor.counting = True, counted
        self.slots.cancel()
        await self.slots.close()
        await self.runner_pool.close()
        self.job_log.close()
        self._loop_watch.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_WORDS):
                await self.settled()
                for durations in self.durations:
                    await durations.flush(self._driver)

    async def close(self) -> None:
        """Call no more hooks for jobs of other processes."""
        await self.listener.close()

    async def end_session(self) -> None:
        """End the session as the supervisor would, if no job can still be running here."""
        if any(executor.abandoned for executor in self.executors) or any(settler.busy for settler in self.settlers):
            return  # the lease expires
        await asyncio.sleep(_MOMENT)
        try:
            for executor in self.executors:
                await self._recover(executor.queue_context)
        except LockworkError as error:
            log.error("the jobs of this worker process could not be returned to the queue: %s", error)

    async def _recover(self, queue_context: QueueContext) -> None:
        dead: list[Buried] = []
        ending = leases.recover(
            queue_context.keys, queue_context.session, self._window_ms, gone=True, on_buried=dead.extend
        )
        await self._driver.run(sessions.within(1.0, ending))
        if dead:
            log_buried(queue_context.queue, queue_context.session, dead)
            await self.listener.notify_buried(queue_context.queue, dead)


def _warn_of_large_batches(app: Lockwork, options: WorkerOptions) -> None:
    for task in app.registry.of(options.queues):
        if task.batching is not None and task.batching.size > options.concurrency and not options.once:
            log.warning(
                "task %r takes up to %d jobs in one call, but this process runs only %d at once: see --concurrency",
                task.name,
                task.batching.size,
                options.concurrency,
            )
