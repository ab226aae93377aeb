"""Wires the parts of a worker process together, and ends them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from random import random
from typing import Any

from msgspec import Struct

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
from lockwork.worker.execution.contexts import ExecutionContext, FetchOptions, SessionContext
from lockwork.worker.execution.durations import Durations, keep_flushing
from lockwork.worker.execution.end_reports import EndReports
from lockwork.worker.execution.executor import Executor, cancel
from lockwork.worker.execution.fetcher import Fetcher
from lockwork.worker.execution.flow_relay import FlowRelay
from lockwork.worker.execution.foreign_calls import TasksOfApp
from lockwork.worker.execution.isolation import IsolationFetcher
from lockwork.worker.execution.job_log import JobLog
from lockwork.worker.execution.load import report_load
from lockwork.worker.execution.loop_watch import LoopWatch
from lockwork.worker.execution.queue_state import QueueState
from lockwork.worker.execution.runner_pool import RunnerPool
from lockwork.worker.execution.schedule_changes import report_schedule_changes
from lockwork.worker.execution.settler import Settler
from lockwork.worker.execution.slots import WorkerSlots
from lockwork.worker.execution.threads import ThreadPool
from lockwork.worker.execution.unbegun_jobs import UnbegunJobs
from lockwork.worker.execution.unknown_jobs import return_unknown_jobs
from lockwork.worker.ipc.hard_timeouts import TimeLimits
from lockwork.worker.ipc.messages import Control, JobTimes, Recycle, Reporter
from lockwork.worker.process.hook_listener import HookListener
from lockwork.worker.settings import ProcessSettings, WorkerOptions

log: Log = Log("lockwork.worker")

_MOMENT = 0.2
"""Seconds until the other processes of a killed supervisor have noticed its death, so that none takes these jobs."""
_LAST_WORDS = 1.5
"""Time limit in seconds for settling returned jobs before the teardown: the supervisor kills this process soon."""


class _ServedQueue(Struct, frozen=True):
    """A queue or partition that the process serves, and the parts that run its jobs."""

    state: QueueState
    executor: Executor
    settler: Settler
    durations: Durations
    relay: FlowRelay


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
        options, slots = settings.options, WorkerSlots(settings.options.concurrency)
        wakeup_channel, window_ms = channel(app.config.prefix, settings.session), in_milliseconds(app.config.result_ttl)
        self._app = app
        self._settings = settings
        self._reporter = reporter
        self._session_context = SessionContext(driver, settings.session, wakeup_channel, slots, window_ms)
        self._runner_pool = RunnerPool(settings, reporter)
        self._execution_context = ExecutionContext(
            app.registry,
            app.config,
            threads,
            caller,
            slots,
            JobLog(),
            None if settings.embedded else self._runner_pool,
        )
        self._loop_watch = LoopWatch(slots)
        slots.on_start = self._loop_watch.begin
        if not settings.isolates:
            _warn_of_large_batches(app, options)
        app.plans.served = True
        self._listeners: list[asyncio.Task[None]] = []
        self._listen(report_load(slots, reporter), "lockwork-load")
        partitions = _partitions(app, options)
        self._queues: list[_ServedQueue] = [
            self._serve(*partition) for partition in partitions if partition[0] not in settings.without
        ]
        # received on this loop, so that a wake-up needs no thread switch
        waits = {
            keys.jobs: (keys.jobs, keys.job_notes, keys.unreported, keys.schedules)
            for keys in (each.state.keys for each in self._queues)
        }
        self._listen(app.runtime.engine.hearing(wakeup_channel, waits).run(), "lockwork-hear")
        self._listen(keep_flushing(driver, [queue.durations for queue in self._queues]), "lockwork-durations")
        self.fetcher: Fetcher | IsolationFetcher = (
            self._isolation_fetcher(control)
            if settings.isolates
            else self._fetcher(control, in_turn=len(partitions) > len(options.queues))
        )
        control.on_session_lost = self.fetcher.check
        queue_contexts = {queue.state.name: queue.executor.queue_context for queue in self._queues}
        self.listener: HookListener = HookListener(control.ended, queue_contexts, app.registry.context)
        observers = app.registry.context.observers
        self._end_reports: list[EndReports] = [
            EndReports(driver, queue_context, wakeup_channel, observers, control.ended)
            for queue_context in queue_contexts.values()
            if observers and not settings.isolates
        ]
        for reports in self._end_reports:
            self._listen(reports.run(), "lockwork-end-reports")

    def _listen(self, listening: Coroutine[Any, Any, None], name: str) -> None:
        """Run a coroutine until the process ends its unfinished jobs."""
        self._listeners.append(asyncio.create_task(listening, name=name))

    def _serve(self, name: str, family: str, weight: int) -> _ServedQueue:
        """Create the parts for one queue or partition, and listen for its messages."""
        context, config = self._session_context, self._app.config
        keys = QueueKeys(config.prefix, name)
        observers = self._app.registry.context.observers
        settler = Settler(context.driver, keys, context.session, context.window_ms, observers)
        durations = Durations(keys, context.session, self._report_times)
        queue_context = QueueContext(
            name, keys, self._app.runtime, context.session, config.max_result, durations.overran
        )
        limits = None if self._settings.embedded else TimeLimits(self._reporter, name)
        executor = Executor(queue_context, self._execution_context, settler, limits, durations)
        self._listen(cancel(context.driver, queue_context, context.slots, executor), "lockwork-cancel")
        self._listen(report_schedule_changes(context.driver, keys, self._reporter), "lockwork-schedule-changes")
        # each process begins with a different partition
        turn = random()  # noqa: S311 - no secret
        relay = FlowRelay(context.driver, keys, context.window_ms)
        state = QueueState(name, keys, executor, weight, family, turn, settler=settler, relay=relay)
        self._listen(return_unknown_jobs(context, state, settler), "lockwork-unknown-jobs")
        return _ServedQueue(state, executor, settler, durations, relay)

    def _report_times(self, queue: str, task: str, wait: Times, run: Times) -> None:
        self._reporter.report(JobTimes(queue, task, wait.packed(), run.packed()))

    def _isolation_fetcher(self, control: Control) -> IsolationFetcher:
        queues, burst = [queue.state for queue in self._queues], self._settings.options.burst
        return IsolationFetcher(self._session_context, queues, settled=self.settled, ending=control.ending, burst=burst)

    def _fetcher(self, control: Control, *, in_turn: bool) -> Fetcher:
        """Create the fetcher, and report to it the jobs that this process returns."""
        options, queues = self._settings.options, [queue.state for queue in self._queues]
        fetch_options = FetchOptions(
            queue_state.chosen(weighted=options.weights is not None, in_turn=in_turn),
            max_jobs=1 if options.once else None,
            settled=self.settled if options.burst else None,
            recycle_after=options.max_jobs,
            on_recycle=lambda: self._reporter.report(Recycle()),
            ending=control.ending,
            shards=self._app.runtime.clustered,
            known_tasks=TasksOfApp(self._app.registry),
            suspects=options.once,
            lease=options.lease,
        )
        fetcher = Fetcher(self._session_context, queues, fetch_options)
        control.next_due = fetcher.next_due
        for queue in self._queues:
            queue.executor.on_given_back = fetcher.job_given_back
        self._loop_watch.on_block = UnbegunJobs(
            self._app.runtime, self._session_context, queues, fetcher.returned
        ).give_back
        return fetcher

    async def settled(self) -> bool:
        """Wait until all outcomes are on the server, and messages of flows are delivered; returns True."""
        for queue in self._queues:
            await queue.settler.drained()
            await queue.relay.done()
        return True

    async def idle(self) -> None:
        """Wait until nothing runs."""
        await self._session_context.slots.idle()
        await self.listener.idle()

    def hurry(self) -> None:
        """Start batches at once, because no more jobs are fetched."""
        for queue in self._queues:
            queue.executor.hurry()

    async def done(self, fetching: asyncio.Task[None]) -> None:
        """Wait until fetching has ended, all jobs have finished, and the server has all outcomes."""
        await asyncio.wait([fetching])
        await self.idle()
        await self.settled()
        for reports in self._end_reports:
            await reports.look()
        await self.listener.idle()

    async def give_up(self, *, counted: bool) -> None:
        """End and return unfinished jobs. counted: return only unstarted jobs; running jobs count as attempts."""
        for listener in self._listeners:
            listener.cancel()
        await asyncio.gather(*self._listeners, return_exceptions=True)
        for queue in self._queues:
            await queue.relay.cancel()
            queue.executor.giving_back, queue.executor.counting = True, counted
        self._session_context.slots.cancel()
        await self._session_context.slots.close()
        await self._runner_pool.close()
        self._execution_context.job_log.close()
        self._loop_watch.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_WORDS):
                await self.settled()
                for queue in self._queues:
                    await queue.durations.flush(self._session_context.driver)

    async def close(self) -> None:
        """Call no more hooks for jobs of other processes."""
        await self.listener.close()

    async def end_session(self) -> None:
        """End the session as the supervisor would, if no job can still be running here."""
        if any(queue.executor.abandoned or queue.settler.busy for queue in self._queues):
            return  # the lease expires
        await asyncio.sleep(_MOMENT)
        try:
            for queue in self._queues:
                await self._recover(queue.executor.queue_context)
        except LockworkError as error:
            log.error("the jobs of this worker process could not be returned to the queue: %s", error)

    async def _recover(self, queue_context: QueueContext) -> None:
        dead: list[Buried] = []
        ending = leases.recover(
            queue_context.keys, queue_context.session, self._session_context.window_ms, gone=True, on_buried=dead.extend
        )
        await self._session_context.driver.run(sessions.within(1.0, ending))
        if dead:
            log_buried(queue_context.queue, queue_context.session, dead)
            await self.listener.notify_buried(queue_context.queue, dead)


def _partitions(app: Lockwork, options: WorkerOptions) -> list[tuple[str, str, int]]:
    """Return each queue or partition of the worker with its family and weight."""
    weights = options.weights or [1] * len(options.queues)
    return [
        (name, family, weight)
        for family, weight in zip(options.queues, weights, strict=True)
        for name in app.config.partitions.names(family)
    ]


def _warn_of_large_batches(app: Lockwork, options: WorkerOptions) -> None:
    for task in app.registry.of(options.queues):
        if task.batching is not None and task.batching.size > options.concurrency and not options.once:
            log.warning(
                "task %r takes up to %d jobs in one call, but this process runs only %d at once: see --concurrency",
                task.name,
                task.batching.size,
                options.concurrency,
            )
