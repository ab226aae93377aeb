"""Batching: collects the jobs of a batch task, and calls the function once for the whole batch.

Each job keeps its own slot, lease, attempt, cancellation and outcome. Only the call of the function is shared.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context
from functools import partial
from typing import Any

from lockwork.errors import JobCancelled
from lockwork.jobs.current import JobContext, SlotContext, slot
from lockwork.tasks.batch import Batching
from lockwork.tasks.task import Task
from lockwork.worker.execution.around import CallEnd, aaround, aended, around, ended
from lockwork.worker.execution.contexts import ExecutionContext
from lockwork.worker.execution.job_grants import end_calls
from lockwork.worker.execution.threads import JobThreads, ThreadRun, call_task


class WrongResults(Exception):
    """The function did not return a list with one result for each item."""


class _BatchJob:
    """One job of a batch."""

    __slots__ = ("context", "done", "item")

    def __init__(self, context: JobContext, item: object, loop: asyncio.AbstractEventLoop) -> None:
        self.context = context
        self.item = item
        self.done: asyncio.Future[CallEnd] = loop.create_future()


class _Batch:
    """Jobs that wait for a call and then for its end."""

    __slots__ = ("_cancelled", "members", "run", "task", "timer")

    def __init__(self) -> None:
        self.members: list[_BatchJob] = []
        self.timer: asyncio.Handle | None = None
        self.task: asyncio.Task[None] | None = None
        """The call, once started."""
        self.run: ThreadRun | None = None
        """The thread of the call."""
        self._cancelled = False

    def cancel(self) -> None:
        """Cancel the call once: cancel its coroutine, or interrupt its thread."""
        if self._cancelled:
            return
        self._cancelled = True
        if self.run is not None:
            self.run.interrupt(JobCancelled)
        elif self.task is not None:
            self.task.cancel()

    def never_called(self, _task: asyncio.Task[None]) -> None:
        """Fail the jobs if the call was cancelled before its first step, so that it set no results."""
        for member in self.members:
            if not member.done.done():
                member.done.set_result(CallEnd(asyncio.CancelledError()))

    def in_thread(self, run: ThreadRun) -> None:
        """Record the thread that runs the function."""
        self.run = run


class Batcher:
    """Collects the jobs of one batch task in one worker process. `giving_back()` returns True when the process ends."""

    def __init__(
        self,
        task: Task[Any, Any, Any],
        batching: Batching,
        context: ExecutionContext,
        base_context: Context,
        giving_back: Callable[[], bool],
    ) -> None:
        self._task = task
        self._batching = batching
        self._linger = batching.linger
        self._threads = context.threads
        self._caller = context.caller
        self._slots = context.slots
        self._base_context = base_context
        self._giving_back = giving_back
        self._middlewares = context.registry.context.middlewares
        self._contexts = context.registry.context.call_contexts
        self._open: _Batch | None = None

    async def join(self, context: JobContext, item: object) -> Any:
        """Add a job to the next call, wait for the call, and return the job's result; raises the job's error."""
        loop = asyncio.get_running_loop()
        member = _BatchJob(context, item, loop)
        batch = self._open
        if batch is None:
            batch = self._open = _Batch()
            batch.timer = loop.call_later(self._linger, self._due, batch)
        batch.members.append(member)
        full = self._slots.full and self._slots.all_begun  # then no job can join until a running one ends
        if full or len(batch.members) >= self._batching.size:
            self._begin(batch)
        while not member.done.done():
            try:
                await asyncio.wait([member.done])
            except asyncio.CancelledError:
                if batch.task is None:
                    self._leave(batch, member)
                    raise
                if self._giving_back():
                    if not self._task.is_async:
                        raise  # the thread runs until the process ends
                    batch.cancel()
                elif all(one.context.cancelled for one in batch.members):
                    batch.cancel()
                # otherwise the call continues for the others, and this job waits for it
        end = member.done.result()
        try:
            return end.get()
        finally:
            del end, member, batch  # as in CallEnd.get

    def hurry(self) -> None:
        """Start batches at once, because no more jobs will join."""
        self._linger = 0.0
        if self._open is not None:
            if self._open.timer is not None:
                self._open.timer.cancel()
            self._due(self._open)

    def _due(self, batch: _Batch) -> None:
        if batch is not self._open:
            return
        if self._slots.all_begun:
            self._begin(batch)
        else:
            # jobs of the same fetch are about to join
            batch.timer = asyncio.get_running_loop().call_soon(self._due, batch)

    def _leave(self, batch: _Batch, member: _BatchJob) -> None:
        batch.members.remove(member)
        if not batch.members:
            self._close(batch)

    def _close(self, batch: _Batch) -> None:
        self._open = None
        if batch.timer is not None:
            batch.timer.cancel()

    def _begin(self, batch: _Batch) -> None:
        self._close(batch)
        # without context variables from the first job's hooks
        batch.task = asyncio.get_running_loop().create_task(
            self._contexts.acall(partial(self._call, batch)), name="lockwork-batch", context=self._base_context.copy()
        )
        batch.task.add_done_callback(batch.never_called)

    async def _call(self, batch: _Batch) -> None:
        mine = SlotContext()
        mine.batch = [member.context for member in batch.members]
        slot.set(mine)
        try:
            if self._middlewares.around_jobs:
                ends = await self._surrounded(batch, mine)
            else:
                items = [member.item for member in batch.members]
                end = await aended(self._called(items, JobThreads(self._threads, batch.in_thread)))
                ends = self._ends(end, len(items))
        except BaseException as error:  # noqa: BLE001 - whatever it raises is the outcome of all
            ends = [CallEnd(error)] * len(batch.members)
        finally:
            jobs, mine.batch = mine.batch, []
            end_calls(batch.task, mine, jobs)
        for member, end in zip(batch.members, ends, strict=True):
            member.done.set_result(end)
        batch.members = []  # the traceback of the jobs' error refers to the batch

    async def _surrounded(self, batch: _Batch, mine: SlotContext) -> list[CallEnd]:
        """Call the function within the middlewares of each job, for the jobs that the middlewares let run."""
        jobs = mine.batch
        items = [member.item for member in batch.members]

        def keep(live: list[int]) -> None:
            items[:] = [items[at] for at in live]
            mine.batch = [mine.batch[at] for at in live]

        def in_thread(run: Callable[[], Any]) -> list[CallEnd]:
            def called(live: list[int]) -> list[CallEnd]:
                keep(live)
                return self._ends(ended(self._task, self._task.options_in_force.timeout, run), len(items))

            return around(self._middlewares.in_thread, mine.batch, called)

        inner = None if self._task.is_async else in_thread
        threads = JobThreads(self._threads, batch.in_thread, inner)

        async def called(live: list[int]) -> list[CallEnd]:
            keep(live)
            end = await aended(self._called(items, threads))
            return self._ends(end, len(live)) if inner is None or end.error is not None else end.value

        middlewares = self._middlewares
        outer = middlewares.around_jobs if self._task.is_async else middlewares.on_loop
        return await aaround(outer, jobs, called, [])

    async def _called(self, items: list[Any], threads: JobThreads) -> Any:
        return await call_task(self._task, [items], {}, self._task.options_in_force.timeout, threads, self._caller)

    def _ends(self, end: CallEnd, jobs: int) -> list[CallEnd]:
        return ends_of(end, jobs, self._results)

    def _results(self, value: object, count: int) -> list[Any]:
        return results_of(self._task, value, count)


def ends_of(end: CallEnd, jobs: int, results: Callable[[object, int], list[Any]]) -> list[CallEnd]:
    """Return the end of one call of a batch task for each of its jobs."""
    if end.error is None:
        try:
            return [CallEnd.of(result) for result in results(end.value, jobs)]
        except WrongResults as error:
            end = CallEnd(error)
    return [end] * jobs


def results_of(task: Task[Any, Any, Any], value: object, count: int) -> list[Any]:
    """Return the result of each job of one call; raises WrongResults."""
    if value is None:
        return [None] * count
    if not isinstance(value, list | tuple):
        raise WrongResults(
            f"batch task {task.name!r} must return a list with one result for each item, or None, "
            f"not {type(value).__name__}"
        )
    if len(value) != count:
        raise WrongResults(f"batch task {task.name!r} was given {count} items, and returned {len(value)} results")
    return list(value)
