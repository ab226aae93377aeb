"""Calls the hooks of jobs that ended with another process; the supervisor sends them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from lockwork.errors import WorkerDied
from lockwork.jobs.current import JobContext, QueueContext, SlotContext, slot
from lockwork.logs import Log
from lockwork.protocol.queue import leases, records
from lockwork.protocol.queue.leases import Buried, Leased
from lockwork.tasks.app_context import AppContext
from lockwork.worker.execution.hook_runner import CANCEL, AttemptEnd, HookRunner
from lockwork.worker.execution.job_grants import end_calls
from lockwork.worker.execution.threads import ThreadPool, killed_after
from lockwork.worker.ipc.messages import KilledJob, UnreportedEnd, buried_job

log: Log = Log("lockwork.worker")


class HookListener:
    """The worker process's side: calls the hooks of one job after the other, in parallel with its own jobs."""

    def __init__(
        self,
        jobs: asyncio.Queue[KilledJob | UnreportedEnd],
        queue_contexts: Mapping[str, QueueContext],
        context: AppContext,
    ) -> None:
        self._jobs = jobs
        self._queue_contexts = queue_contexts
        # a dedicated thread: jobs may block all others without a time limit
        self._threads = ThreadPool(1, context.call_contexts)
        self._hook_runner = HookRunner(context, self._threads)
        self._observers = context.observers
        self._task = asyncio.create_task(self._run(), name="lockwork-ended")

    async def idle(self) -> None:
        """Wait until the hooks of all received jobs have run."""
        await self._jobs.join()

    async def notify_buried(self, queue: str, buried: Sequence[Buried]) -> None:
        """Call the hooks of jobs that this process buried because its supervisor is gone."""
        for job in buried:
            self._jobs.put_nowait(buried_job(queue, job))
        await self.idle()

    async def close(self) -> None:
        """Call no more hooks."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._threads.close()

    async def _run(self) -> None:
        mine = SlotContext()
        slot.set(mine)
        while True:
            ended = await self._jobs.get()
            try:
                if isinstance(ended, UnreportedEnd):
                    await self._report_end(ended, mine)
                else:
                    await self._call_hooks(ended, mine)
            except (ValueError, KeyError) as error:
                log.error("a message from the supervisor about an ended job cannot be used: %r", error)
            finally:
                job, mine.job = mine.job, None
                end_calls(asyncio.current_task(), mine, [] if job is None else [job])
                self._jobs.task_done()

    async def _call_hooks(self, ended: KilledJob, mine: SlotContext) -> None:
        id, token, kind, _, delay_ms, _ = ended.outcome
        leased = Leased(id, token, b"", records.counts(token).attempts, leases.fence_of(token))
        mine.job = job = JobContext(leased, ended.task, self._queue_contexts[ended.queue])
        job.over = True
        if not ended.seconds:
            await self._hook_runner.died(job, WorkerDied(ended.problem))
            return
        error = killed_after(ended.seconds)
        end = AttemptEnd("dead", error) if kind == "d" else AttemptEnd("retry", error, delay_ms / 1000)
        await self._hook_runner.ended(job, ended.seconds, None, CANCEL if kind == "c" else end)
        if ended.task in self._observers:
            await self._hook_runner.report_end(job, self._queue_contexts[ended.queue], error)

    async def _report_end(self, ended: UnreportedEnd, mine: SlotContext) -> None:
        queue_context = self._queue_contexts[ended.queue]
        mine.job = job = JobContext(Leased(ended.id, b"", b"", 0, 0), ended.task, queue_context)
        job.over = True
        await self._hook_runner.report_end(job, queue_context)
