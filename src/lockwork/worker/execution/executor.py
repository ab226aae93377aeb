"""Executes a leased job: from its record to its outcome."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from functools import partial
from time import perf_counter
from typing import Any

from lockwork.errors import LockworkError, RetryUntilPassed, ServerRefused, ServerUnavailable, UnknownTask
from lockwork.failures import line
from lockwork.hooks import Again
from lockwork.jobs.current import JobContext, QueueContext, SlotContext, meant
from lockwork.logs import Log
from lockwork.protocol.messages import Hints
from lockwork.protocol.queue import job_control as control
from lockwork.protocol.queue import record_header, records
from lockwork.protocol.queue.leases import RECHECK, Leased
from lockwork.runtime.async_driver import AsyncDriver
from lockwork.tasks.batch import Batching
from lockwork.tasks.task import Task
from lockwork.worker.execution.around import aaround_job, around, ended
from lockwork.worker.execution.batching import Batcher, WrongResults
from lockwork.worker.execution.contexts import ExecutionContext
from lockwork.worker.execution.durations import Durations
from lockwork.worker.execution.foreign_calls import ForeignCall, ForeignCalls
from lockwork.worker.execution.forked_copies import leave_copy
from lockwork.worker.execution.hook_runner import AttemptEnd, HookRunner
from lockwork.worker.execution.job_call import CallReader, JobCall, of_flow
from lockwork.worker.execution.outcomes import Outcomes, Settled, Settles, job_label
from lockwork.worker.execution.slots import WorkerSlots
from lockwork.worker.execution.threads import JobThreads, awaited, call_task
from lockwork.worker.ipc.hard_timeouts import TimeLimits

log: Log = Log("lockwork.jobs")


async def cancel(driver: AsyncDriver, queue_context: QueueContext, slots: WorkerSlots, executor: Executor) -> None:
    """Cancel jobs on request, until cancelled. Messages may be lost, so this also polls while jobs run here."""
    pause, hints = RECHECK, Hints()
    while True:
        job_id = await driver.run(control.hear(queue_context.keys, pause, hints))
        jobs = slots.held(executor, queue_context.queue)
        requests: set[str] = set()
        try:
            if jobs:
                requests = await driver.run(control.asked(queue_context.keys, queue_context.session, jobs))
        except LockworkError as error:
            log.warning("requests to cancel jobs cannot be read: %s", error)
        slots.stop(requests, executor, queue_context.queue)
        # the job is not here: the reply that leases it is still under way, or the job just ended
        pause = control.SOON if job_id and job_id not in requests else min(RECHECK, pause * 2)


_UNREAD: dict[type[Exception], str] = {
    UnknownTask: "waited, but no live worker knew its task",
    RetryUntilPassed: "starts too late",
}
"""Why a job does not run, by its error."""


def _task_of(job: Leased) -> str:
    """Return the task of a job that is not called; "" if its record is unreadable."""
    return records.read(job.record, len(job.record) + 1, job.id).task or ""  # only the beginning, which has the task


def _nothing(job: Leased, task: str, seconds: float) -> None:
    pass


class Executor:
    """Runs the jobs of one queue; without `limits`, there are no hard time-outs."""

    def __init__(
        self,
        queue_context: QueueContext,
        context: ExecutionContext,
        settler: Settles,
        limits: TimeLimits | None = None,
        durations: Durations | None = None,
    ) -> None:
        app, config = context.registry.context, context.config
        self.queue_context: QueueContext = queue_context
        self._context = context
        self._reader = CallReader(queue_context, context.registry, config.max_payload)
        self._hooks = app.hooks
        self._middlewares = app.middlewares
        self._observers = app.observers
        self._left_open: list[object] = []
        """Middlewares around threads that still run while the process ends."""
        self._settler = settler
        self._outcomes = Outcomes(settler, app.errors, config.max_result, queue_context, context.job_log)
        self._foreign_calls = ForeignCalls(
            queue_context.runtime, queue_context.queue, config.unknown_task_ttl, settler.add
        )
        self._hook_runner = HookRunner(app, context.threads)
        self._limits = limits
        self._record_duration = _nothing if durations is None else durations.ended
        self._base_context = copy_context()
        self.on_given_back: Callable[[], None] = lambda: None
        """Called for each job that this worker returns because it cannot run it."""
        self._batchers: dict[str, Batcher] = {}
        self._hurried = False
        self.giving_back = False
        """True if jobs are cancelled because the process ends; those jobs are returned."""
        self.counting = False
        """Set with `giving_back` if the end was not requested: started jobs count as attempts, and stay leased."""
        self.abandoned: bool = False
        """True if a thread may still run a job whose slot has ended."""

    async def run(self, job: Leased, slot: SlotContext) -> None:
        """Run one job to its outcome; raises only CancelledError, if the slot itself is cancelled."""
        try:
            call = self._reader.read(job, await self._reader.bound_call(job) if of_flow(job) else None)
        except Exception as problem:  # noqa: BLE001 - a record may contain anything
            await self._settle_unread(job, problem)
            return
        slot.job, has_hooks, began = call.context, self._hooks.in_worker, perf_counter()
        error: BaseException | None = None
        try:
            error, value = await self._call(call)
            seconds = perf_counter() - began
            if error is not None and await self._requeue(call, error):
                if isinstance(error, asyncio.CancelledError):
                    raise error
                return
            outcome = self._settle(call, error, value, seconds)
            self._record_duration(job, call.context.task, seconds)
            if slot.task is not None and slot.task.cancelling() and not self.giving_back:
                await self._forgive(slot.task)
            is_observed = call.context.task in self._observers
            if (has_hooks or is_observed) and outcome is not None:
                call.context.over = True  # the outcome is on the way to the server, so hooks cannot change it
                await self._hook_runner.ended(call.context, seconds, value, outcome)
            if is_observed:
                await self._report_end(call.context, None if outcome is None else outcome.error)
        except Exception as problem:  # noqa: BLE001 - the app's error may itself raise, for instance in `__str__`
            self._bury_ended(call, problem)
        finally:
            slot.job = None
            error = None  # its traceback may refer to this frame, and would keep the job's frames alive

    def hurry(self) -> None:
        """Start batches at once, because no more jobs will join."""
        self._hurried = True
        for batcher in self._batchers.values():
            batcher.hurry()

    async def _call(self, call: JobCall) -> tuple[BaseException | None, Any]:
        """Call the task's function; return its error and its value."""
        try:
            try:
                if call.direct:
                    return None, await call.task.function(*call.args, **call.kwargs)
                return None, await self._value(call)
            finally:
                leave_copy()
        except BaseException as error:  # noqa: BLE001 - whatever it raises is the outcome
            return error, None

    async def _value(self, call: JobCall) -> Any:
        """Call a task that has options, injection, or hooks."""
        context, limit = call.context, call.options.hard_timeout
        if call.options.in_process and self._context.runner_pool is not None:
            # the hooks run in the runner
            return Settled(await self._context.runner_pool.run(call.job, context, limit))
        if self._hooks.on_start:
            await self._hook_runner.started(context, call.args, call.kwargs)
        # without the hooks: a job must not keep a connection while its hooks wait for one
        contexts = self._context.registry.context.call_contexts
        calling: Callable[[], Coroutine[Any, Any, Any]] = partial(self._call_here, call)
        if (observer := self._observers.get(context.task)) is not None:
            calling = partial(observer.run, context, calling)
        if limit is None or self._limits is None:
            return await contexts.acall(calling)
        outcome = self._outcomes.too_long(call.job, context.task, call.options, limit)
        self._limits.started(outcome, limit, context.task)
        try:
            return await contexts.acall(calling)
        finally:
            self._limits.ended(context.id)

    async def _call_here(self, call: JobCall) -> Any:
        """Call the function in this process: in a batch, within middlewares, or alone."""
        if call.task.batching is not None:
            call.task.signature.check(call.args, call.kwargs)
            return await self._batcher(call.task, call.task.batching).join(call.context, call.args[0])
        if self._middlewares.around_jobs:
            return await self._call_in_middlewares(call)
        return await self._call_function(call, JobThreads(self._context.threads, call.context.in_thread))

    async def _call_in_middlewares(self, call: JobCall) -> Any:
        job, middlewares = call.context, self._middlewares
        if call.task.is_async and call.options.timeout is None and not call.task.injected:
            # neither threads nor a time limit: the usual call, without a function for each
            function = partial(awaited, call.task.function, *call.args, **call.kwargs)
            return await aaround_job(middlewares.around_jobs, job, function, self._left_open)
        if call.task.is_async:
            outer, inner = middlewares.around_jobs, None
        else:
            outer, inner = middlewares.on_loop, partial(self._call_in_thread, call) if middlewares.in_thread else None
        threads = JobThreads(self._context.threads, job.in_thread, inner)
        return await aaround_job(outer, job, partial(self._call_function, call, threads), self._left_open)

    def _call_in_thread(self, call: JobCall, run: Callable[[], Any]) -> Any:
        """Call a `def` task's function in its thread, within the middlewares that run there."""
        timeout = call.options.timeout
        ends = around(self._middlewares.in_thread, [call.context], lambda _: [ended(call.task, timeout, run)])
        return ends[0].get()

    async def _call_function(self, call: JobCall, threads: JobThreads) -> Any:
        caller, timeout = self._context.caller, call.options.timeout
        return await call_task(call.task, call.args, call.kwargs, timeout, threads, caller)

    def _batcher(self, task: Task[Any, Any, Any], batching: Batching) -> Batcher:
        batcher = self._batchers.get(task.name)
        if batcher is None:
            batcher = Batcher(task, batching, self._context, self._base_context, lambda: self.giving_back)
            self._batchers[task.name] = batcher
            if self._hurried:
                batcher.hurry()
        return batcher

    async def _requeue(self, call: JobCall, error: BaseException) -> bool:
        """Return a job to its queue if it failed because the process ends, or if another worker has to run it."""
        # ignore its own error, such as a failed cleanup: the job did not fail, the process cancelled it
        if self.giving_back and not isinstance(meant(error), Again | WrongResults):
            self._cut_short(call)
            return True
        if not call.direct or type(error) is not TypeError:
            return False
        try:
            call.task.signature.check(call.args, call.kwargs)
        except TypeError:
            return await self._returned(call.job, ForeignCall(call.context.task, call.task.version))
        return False

    def _cut_short(self, call: JobCall) -> None:
        """Return a job that was cancelled because the process ends."""
        if not call.task.is_async and not call.options.in_process:
            # the thread cannot be stopped: the supervisor returns its job once this process is gone
            self.abandoned = True
        elif not self.counting and not record_header.budget(call.job.record).deliveries:
            # the supervisor counts the delivery of a job with a delivery limit
            self._outcomes.given_back(call.job, begun=True)

    def _settle(self, call: JobCall, error: BaseException | None, value: object, seconds: float) -> AttemptEnd | None:
        """Settle a job whose call ended; return None if a runner has already called the hooks."""
        if error is not None:
            return self._outcomes.raised(call.job, meant(error), call.context, call.options)
        task, changes, overran = call.context.task, call.task.signature.result_may_change, call.context.overran
        return self._outcomes.returned(call.job, task, value, call.options, seconds, changes, overran=overran)

    def _bury_ended(self, call: JobCall, error: Exception) -> None:
        """Bury a job whose end could not be settled: without an outcome, it would stay active forever."""
        job, task = call.job, call.context.task
        self._outcomes.dead(job, error, task)
        message = "%s has ended, but goes to the dead set, for: %s"
        log.error(message, job_label(job, task), self._outcomes.line(error), **self._outcomes.facts(job, task, error))

    async def _settle_unread(self, job: Leased, error: Exception) -> None:
        """Bury a record that cannot be read, unless another worker may run it."""
        name, options = "", None
        if isinstance(error, ForeignCall):
            if await self._returned(job, error):
                return
            name, options = error.task, error.options
            error = error.__cause__ if isinstance(error.__cause__, Exception) else error
        if options is not None:
            outcome = self._outcomes.failed(job, error, options, name)
        elif isinstance(error, ServerUnavailable | ServerRefused):
            log.warning("job %s waits: the results that it uses cannot be read yet: %s", job.id, line(error))
            self._outcomes.put_off(job, 1000)
            return
        else:
            why = _UNREAD.get(type(error), "cannot be read")
            message = "%s %s, and goes to the dead set: %s"
            text = self._outcomes.line(error)
            log.error(message, job_label(job, name), why, text, **self._outcomes.facts(job, name, error))
            name = name or _task_of(job)
            outcome = self._outcomes.dead(job, error, name)
        if self._hooks.in_worker or name in self._observers:
            context = JobContext(job, name, self.queue_context)
            await self._hook_runner.ended(context, 0.0, None, outcome)
            if name in self._observers:
                await self._report_end(context, outcome.error)

    async def _report_end(self, context: JobContext, error: BaseException | None) -> None:
        """Report the end of a tracked job, when the server has its outcome."""
        context.over = True
        if await self._settler.confirmed(context.id):
            await self._hook_runner.report_end(context, self.queue_context, error)

    async def _returned(self, job: Leased, call: ForeignCall) -> bool:
        """Return a job for another worker; return False if no other worker can run it."""
        try:
            if await self._foreign_calls.returned(job, call):
                self.on_given_back()
                return True
        except asyncio.CancelledError:
            if self.giving_back:
                self.give_back(job)
            raise
        return False

    @staticmethod
    async def _forgive(task: asyncio.Task[None]) -> None:
        """Let the slot continue after its job was cancelled, or cancelled itself."""
        with contextlib.suppress(asyncio.CancelledError):
            # a cancellation that the job has not received arrives here; before Python 3.13, it cannot be revoked
            await asyncio.sleep(0)
        while task.cancelling():
            task.uncancel()

    def give_back(self, job: Leased) -> None:
        """Return an unstarted job to its queue."""
        self._outcomes.given_back(job, begun=False)

    def cancelled(self, job: Leased) -> None:
        """Settle an unstarted job that has a cancellation request."""
        self._outcomes.cancelled(job, _task_of(job))
