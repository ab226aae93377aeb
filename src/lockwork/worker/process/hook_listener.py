"""Calls the hooks of jobs that ended with another process, as the supervisor passes them on."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import msgspec

from lockwork.errors import WorkerDied
from lockwork.hooks import Hooks
from lockwork.jobs.current import JobContext, QueueContext, SlotContext, slot
from lockwork.logs import Log
from lockwork.protocol.queues import records
from lockwork.protocol.queues.leases import Buried, Leased
from lockwork.worker.execution.hook_runner import CANCEL, AttemptEnd, HookRunner
from lockwork.worker.execution.threads import ThreadPool, killed_after
from lockwork.worker.ipc.messages import EndedJob, buried_job

log: Log = Log("lockwork.worker")


_ended = msgspec.json.Decoder(EndedJob)


class HookListener:
    """A child's side: calls the hooks for what its supervisor tells, one job after the other, beside its own jobs."""

    def __init__(self, lines: asyncio.Queue[bytes], desks: Mapping[str, QueueContext], hooks: Hooks) -> None:
        self._lines = lines
        self._desks = desks
        # a thread of its own: jobs may hold all others for as long as they like
        self._threads = ThreadPool(1)
        self._teller = HookRunner(hooks, self._threads)
        self._task = asyncio.create_task(self._run(), name="lockwork-ended")

    async def idle(self) -> None:
        """Wait until all that was heard so far is told."""
        await self._lines.join()

    async def tell_buried(self, queue: str, buried: Sequence[Buried]) -> None:
        """Tell of jobs that went to the dead set with this process itself, whose supervisor is gone."""
        for job in buried:
            self._lines.put_nowait(msgspec.json.encode(buried_job(queue, job)))
        await self.idle()

    async def close(self) -> None:
        """Tell nothing more."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._threads.close()

    async def _run(self) -> None:
        mine = SlotContext()
        slot.set(mine)
        while True:
            line = await self._lines.get()
            try:
                await self._tell(_ended.decode(line), mine)
            except (ValueError, KeyError) as error:
                log.error("what the supervisor says of a job that has ended cannot be read: %r", error)
            finally:
                mine.job = None
                self._lines.task_done()

    async def _tell(self, ended: EndedJob, mine: SlotContext) -> None:
        id, token, kind, _, delay_ms = ended.outcome
        leased = Leased(id, token, b"", records.counts(token).attempts, int(token.split(b" ")[1]))
        mine.job = job = JobContext(leased, ended.task, self._desks[ended.queue])
        job.over = True
        if not ended.seconds:
            await self._teller.died(job, WorkerDied(ended.problem))
            return
        error = killed_after(ended.seconds)
        end = AttemptEnd("dead", error) if kind == "d" else AttemptEnd("retry", error, delay_ms / 1000)
        await self._teller.ended(job, ended.seconds, None, CANCEL if kind == "c" else end)
