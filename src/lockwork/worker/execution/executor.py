"""Executes a leased job: from its record to its outcome."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from contextvars import copy_context
from time import perf_counter
from typing import Any

from lockwork import codecs
from lockwork.config import Config
from lockwork.errors import LockworkError, ServerRefused, ServerUnavailable, UnknownTask
from lockwork.failures import line
from lockwork.hooks import Again
from lockwork.ids import node_id
from lockwork.injection.calling import Caller
from lockwork.jobs import options as job_options
from lockwork.jobs.current import JobContext, QueueContext, SlotContext, meant
from lockwork.logs import Log
from lockwork.protocol.flows import flows
from lockwork.protocol.messages import Hints
from lockwork.protocol.queue import job_control as control
from lockwork.protocol.queue import record_header, records
from lockwork.protocol.queue.leases import RECHECK, Leased
from lockwork.runtime.async_driver import AsyncDriver
from lockwork.tasks.batch import Batching
from lockwork.tasks.call import bind, sources
from lockwork.tasks.options import TaskOptions
from lockwork.tasks.registry import Registry
from lockwork.tasks.task import Task
from lockwork.worker.execution.around import CallEnd, aaround, aended, around, ended
from lockwork.worker.execution.batching import Batcher, WrongResults
from lockwork.worker.execution.durations import Durations
from lockwork.worker.execution.foreign_calls import ForeignCall, ForeignCalls
from lockwork.worker.execution.forked_copies import leave_copy
from lockwork.worker.execution.hook_runner import AttemptEnd, HookRunner
from lockwork.worker.execution.job_log import JobLog
from lockwork.worker.execution.outcomes import Outcomes, Settled, Settles, shown
from lockwork.worker.execution.runner_pool import RunnerPool
from lockwork.worker.execution.slots import WorkerSlots
from lockwork.worker.execution.threads import JobThreads, ThreadPool, call
from lockwork.worker.ipc.hard_timeouts import TimeLimits

log: Log = Log("lockwork.jobs")


async def cancel(driver: AsyncDriver, queue_context: QueueContext, slots: WorkerSlots, executor: Executor) -> None:
    """Cancel jobs on request, until cancelled. Messages may be lost, so this also polls while jobs run here."""
    pause, hints = RECHECK, Hints()
    while True:
        heard = await driver.run(control.hear(queue_context.keys, pause, hints))
        held = slots.held(executor, queue_context.queue)
        asked: set[str] = set()
        try:
            if held:
                asked = await driver.run(control.asked(queue_context.keys, queue_context.session, held))
        except LockworkError as error:
            log.warning("requests to cancel jobs cannot be read: %s", error)
        slots.stop(asked, executor, queue_context.queue)
        # the job is not here: the reply that leases it is still under way, or the job just ended
        pause = control.SOON if heard and heard not in asked else min(RECHECK, pause * 2)


MOST_BYTES = 64 << 20
"""Maximum total bytes of the results bound to one job."""


def of_flow(job: Leased) -> bool:
    """Return True if the job belongs to a flow."""
    # the token of a plain job avoids reading the record
    return b"*" in job.token and flows.is_marked(job.record)


async def bound_call(job: Leased, queue_context: QueueContext) -> Any:
    """Return the job's call with the results that it uses; raises ValueError if a result is missing."""
    stored: Any = codecs.decode(record_header.body(job.record))
    if not isinstance(stored, list) or len(stored) < 6:
        return stored
    args, kwargs, holes, optional = stored[1], stored[2], stored[4], set(stored[5])
    numbers = list(dict.fromkeys(sources(holes)))
    asked = flows.results(queue_context.keys, flows.flow_of(job.id), numbers, MOST_BYTES)
    blobs = await queue_context.runtime.arun(asked)
    if len(blobs) < len(numbers):
        raise ValueError(f"the results that it uses exceed {MOST_BYTES} bytes")
    undoes = job.id.endswith("u")
    results: dict[int, Any] = {}
    for number, blob in zip(numbers, blobs, strict=True):
        if blob[:1] == b"s":
            results[number] = codecs.decode(blob[1:])
        elif blob and (undoes or number in optional):
            results[number] = None
        else:
            known = "it is not known any more" if not blob else "it has none"
            raise ValueError(f"it uses the result of job {node_id(flows.flow_of(job.id), number)}, and {known}")
    bind(args, kwargs, holes, results)
    return stored[:4]


def _nothing(job: Leased, task: str, seconds: float) -> None:
    pass


class Executor:
    """Runs the jobs of one queue; without `processes` and `limits`, in this process and without hard time-outs."""

    def __init__(
        self,
        queue_context: QueueContext,
        registry: Registry,
        config: Config,
        settler: Settles,
        threads: ThreadPool,
        caller: Caller,
        slots: WorkerSlots,
        job_log: JobLog,
        runner_pool: RunnerPool | None = None,
        limits: TimeLimits | None = None,
        durations: Durations | None = None,
    ) -> None:
        self.queue_context: QueueContext = queue_context
        self._registry = registry
        self._max_payload = config.max_payload + 1024
        self._threads = threads
        self._caller = caller
        self._hooks = registry.context.hooks
        self._middlewares = registry.context.middlewares
        self._left_open: list[object] = []
        """Middlewares around threads that still run while the process ends."""
        self._outcomes = Outcomes(settler, registry.context.errors, config.max_result, queue_context.queue, job_log)
        self._foreign_calls = ForeignCalls(
            queue_context.runtime, queue_context.queue, config.unknown_task_ttl, settler.add
        )
        self._hook_runner = HookRunner(self._hooks, threads)
        self._slots = slots
        self._runner_pool = runner_pool
        self._limits = limits
        self._measured = _nothing if durations is None else durations.ended
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
            stored = await bound_call(job, self.queue_context) if of_flow(job) else None
            name, task, args, kwargs, options, direct = self._read(job, stored)
        except Exception as error:  # noqa: BLE001 - what the wire brought may be anything
            await self._unread(job, error)
            return
        slot.job = context = JobContext(job, name, self.queue_context, options.tags)
        watched, began = self._hooks.in_worker, perf_counter()
        value: Any = None
        end: AttemptEnd | None = None
        wanted: BaseException | None = None
        try:
            try:
                call = task.function(*args, **kwargs) if direct else self._value(task, context, args, kwargs, options)
                try:
                    value = await call
                finally:
                    leave_copy()
            except BaseException as error:
                # ignore its own error, such as a failed cleanup: the job did not fail, the process cancelled it
                wanted = meant(error)
                if self.giving_back and not isinstance(wanted, Again | WrongResults):
                    self._cut_short(job, in_thread=not task.is_async and not options.in_process)
                    if isinstance(error, asyncio.CancelledError):
                        raise
                    return
                seconds = perf_counter() - began
                if direct and type(error) is TypeError and await self._unfit(job, name, task, args, kwargs):
                    return
                end = self._outcomes.raised(job, wanted, context, options)
            else:
                seconds = perf_counter() - began
                changes = task.signature.result_may_change
                end = self._outcomes.returned(job, name, value, options, seconds, changes, overran=context.overran)
            self._measured(job, name, seconds)
            if slot.task is not None and slot.task.cancelling() and not self.giving_back:
                await self._forgive(slot.task)
            if watched and end is not None:
                # the outcome is already on the way to the server, so hooks cannot change it
                context.over = True
                await self._hook_runner.ended(context, perf_counter() - began, value, end)
        except Exception as error:  # noqa: BLE001 - an error of the app's that raises when it is looked at
            # without an outcome, the job would stay active forever
            self._outcomes.dead(job, error, name)
            said = "%s has ended, but goes to the dead set, for: %s"
            log.error(said, shown(job, name), line(error), **self._outcomes.facts(job, name, error))
        finally:
            slot.job = None
            end = wanted = None  # the error's traceback refers to this frame, and would keep the job's frames alive

    def hurry(self) -> None:
        """Start batches at once, because no more jobs will join."""
        self._hurried = True
        for batcher in self._batchers.values():
            batcher.hurry()

    async def _value(
        self,
        task: Task[Any, Any, Any],
        context: JobContext,
        args: list[Any],
        kwargs: dict[str, Any],
        options: TaskOptions,
    ) -> Any:
        """Call a task that has options, injection, or hooks."""
        if options.in_process and self._runner_pool is not None:
            # the hooks run in the runner
            return Settled(await self._runner_pool.run(context.leased, context, options.hard_timeout))
        if self._hooks.on_start:
            await self._hook_runner.started(context, args, kwargs)
        if options.hard_timeout is None or self._limits is None:
            return await self._called(task, context, args, kwargs, options)
        limit = options.hard_timeout
        self._limits.started(self._outcomes.too_long(context.leased, context.task, options, limit), limit, context.task)
        try:
            return await self._called(task, context, args, kwargs, options)
        finally:
            self._limits.ended(context.id)

    async def _called(
        self,
        task: Task[Any, Any, Any],
        context: JobContext,
        args: list[Any],
        kwargs: dict[str, Any],
        options: TaskOptions,
    ) -> Any:
        if task.batching is not None:
            task.signature.check(args, kwargs)
            return await self._batcher(task, task.batching).join(context, args[0])
        if self._middlewares.around_jobs:
            return await self._surrounded(task, context, args, kwargs, options.timeout)
        threads = JobThreads(self._threads, context.in_thread)
        return await call(task, args, kwargs, options.timeout, threads, self._caller)

    async def _surrounded(
        self,
        task: Task[Any, Any, Any],
        context: JobContext,
        args: list[Any],
        kwargs: dict[str, Any],
        timeout: float | None,
    ) -> Any:
        """Call a task within its middlewares."""
        inner = self._middlewares.in_thread

        def in_thread(run: Callable[[], Any]) -> Any:
            return around(inner, [context], lambda _: [ended(task, timeout, run)])[0].get()

        threads = JobThreads(self._threads, context.in_thread, in_thread if inner else None)

        async def called(_: list[int]) -> list[CallEnd]:
            return [await aended(call(task, args, kwargs, timeout, threads, self._caller))]

        outer = self._middlewares.around_jobs if task.is_async else self._middlewares.on_loop
        return (await aaround(outer, [context], called, self._left_open))[0].get()

    def _batcher(self, task: Task[Any, Any, Any], batching: Batching) -> Batcher:
        found = self._batchers.get(task.name)
        if found is None:
            found = self._batchers[task.name] = Batcher(
                task,
                batching,
                self._threads,
                self._caller,
                self._slots,
                self._base_context,
                lambda: self.giving_back,
                self._middlewares,
            )
            if self._hurried:
                found.hurry()
        return found

    async def _unread(self, job: Leased, error: Exception) -> None:
        """Bury a record that cannot be read, unless another worker may run it."""
        name, options = "", None
        if isinstance(error, ForeignCall):
            if await self._returned(job, error):
                return
            name, options = error.task, error.options
            error = error.__cause__ if isinstance(error.__cause__, Exception) else error
        if options is not None:
            end = self._outcomes.failed(job, error, options, name)
        elif isinstance(error, ServerUnavailable | ServerRefused):
            log.warning("job %s waits: the results that it uses cannot be read yet: %s", job.id, line(error))
            self._outcomes.put_off(job, 1000)
            return
        else:
            why = "cannot be read" if not isinstance(error, UnknownTask) else "waited, but no live worker knew its task"
            said = "%s %s, and goes to the dead set: %s"
            log.error(said, shown(job, name), why, line(error), **self._outcomes.facts(job, name, error))
            end = self._outcomes.dead(job, error, name)
        if self._hooks.in_worker:
            await self._hook_runner.ended(JobContext(job, name, self.queue_context), 0.0, None, end)

    async def _unfit(
        self, job: Leased, name: str, task: Task[Any, Any, Any], args: list[Any], kwargs: dict[str, Any]
    ) -> bool:
        """Return a job whose arguments do not fit the function if another version of the task is announced."""
        try:
            task.signature.check(args, kwargs)
        except TypeError:
            return await self._returned(job, ForeignCall(name, task.version))
        return False

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

    def _cut_short(self, job: Leased, *, in_thread: bool) -> None:
        """Return a job that was cancelled because the process ends."""
        if in_thread:
            # the thread cannot be stopped: the supervisor returns its job once this process is gone
            self.abandoned = True
        elif not self.counting and not record_header.budget(job.record).deliveries:
            # the supervisor counts the delivery of a job with a delivery limit
            self._outcomes.given_back(job, begun=True)

    def give_back(self, job: Leased) -> None:
        """Return an unstarted job to its queue."""
        self._outcomes.given_back(job, begun=False)

    def cancelled(self, job: Leased) -> None:
        """Settle an unstarted job that has a cancellation request."""
        self._outcomes.cancelled(job, records.read(job.record, len(job.record) + 1, job.id).task or "")

    def _read(
        self, job: Leased, stored: Any = None
    ) -> tuple[str, Task[Any, Any, Any], list[Any], dict[str, Any], TaskOptions, bool]:
        """Return the called name, the task, arguments and options; and True if the worker only calls the function.

        Such a function checks its arguments itself.
        """
        if len(job.record) > self._max_payload:
            raise ValueError(f"it is {len(job.record)} bytes, and the limit is {self._max_payload}")
        call = codecs.decode(record_header.body(job.record)) if stored is None else stored
        shaped = isinstance(call, list) and 2 <= len(call) <= 4 and isinstance(call[1], list)
        if not shaped or not isinstance(call[0], str):
            raise ValueError("it is not a call of a task")
        name: str = call[0]
        try:
            task = self._registry.get(name)
        except UnknownTask as error:
            raise ForeignCall(name, "") from error
        args: list[Any] = call[1]
        kwargs: dict[str, Any] = call[2] if len(call) > 2 else {}
        options = task.options_in_force
        if len(call) == 4:
            options = job_options.carried(call[3], options)
        direct = (
            task.plain
            and options.timeout is None
            and options.hard_timeout is None
            and not (self._hooks.in_worker or self._middlewares.around_jobs)
        )
        try:
            task.signature.convert(args, kwargs)
        except (ValueError, TypeError) as error:
            raise ForeignCall(name, task.version) from error
        if not direct:
            try:
                task.signature.check(args, kwargs)
            except TypeError as error:
                raise ForeignCall(name, task.version, options) from error
        return name, task, args, kwargs, options, direct
