"""Hooks of jobs that ended with their process: the supervisor knows what became of them, and another child is told.

Each is passed on once. A child that dies before it has called the hooks takes that with it, as it does of its own jobs.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from lockwork.errors import WorkerDied
from lockwork.hooks import Hooks
from lockwork.logs import Log
from lockwork.protocol.queues import records
from lockwork.protocol.queues.leases import Buried, Leased, Outcome
from lockwork.worker.ipc.hard_timeouts import Verdict
from lockwork.worker.supervisor.child_process import Child
from lockwork.jobs.current import Desk, JobContext, Slot, slot
from lockwork.worker.execution.hook_runner import CANCEL, End, Teller
from lockwork.worker.execution.threads import Threads, killed_after
from lockwork.worker.settings import ENDED

log: Log = Log("lockwork.worker")


class Ended(NamedTuple):
    """What became of a job without the process that ran it; a short line, so that it never waits for its reader."""

    queue: str
    task: str
    outcome: Outcome
    """Without its value: the error is made again from what follows."""
    seconds: float = 0.0
    """The hard time-out for which the process was killed; 0 when it died of something else."""
    problem: str = ""
    """Why the job is dead whose process died of something else."""


_ended = msgspec.json.Decoder(Ended)


class Relay:
    """The supervisor's side; jobs are added on any thread, and passed on by the main one."""

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks
        self._untold: deque[Ended] = deque()

    def add(self, verdict: Verdict) -> None:
        """Pass on a job that was over its hard time-out, and has been settled."""
        outcome = verdict.outcome._replace(value=b"")
        self._untold.append(Ended(verdict.queue, verdict.task, outcome, verdict.seconds))

    def add_buried(self, queue: str, buried: Sequence[Buried]) -> None:
        """Pass on jobs that went to the dead set because their worker died, if there are hooks at all."""
        if self._hooks.on_dead:
            self._untold.extend(_buried(queue, job) for job in buried)

    def pass_on(self, children: Iterable[Child]) -> None:
        """Tell a child of what nobody was told of yet: one that starts, and hears it before any job, else another."""
        if not self._untold:
            return
        for child in sorted(children, key=lambda child: (not child.fresh, child.ready)):
            while self._untold and not child.killed and child.can_hear():
                ended = self._untold.popleft()
                if not child.ready:
                    child.told.append(ended)
                child.tell(ENDED + msgspec.json.encode(ended) + b"\n")

    def gone(self, child: Child) -> None:
        """A child has ended: one that never came to work has told nobody."""
        if not child.ready and not child.orderly:
            self._untold.extendleft(reversed(child.told))

    def close(self) -> None:
        """There is nobody left to tell."""
        if self._untold and self._hooks.in_worker:
            ids = ", ".join(ended.outcome.id for ended in self._untold)
            log.warning("no worker process is left to tell the hooks of jobs that ended with their process: %s", ids)


class Listener:
    """A child's side: calls the hooks for what its supervisor tells, one job after the other, beside its own jobs."""

    def __init__(self, lines: asyncio.Queue[bytes], desks: Mapping[str, Desk], hooks: Hooks) -> None:
        self._lines = lines
        self._desks = desks
        # a thread of its own: jobs may hold all others for as long as they like
        self._threads = Threads(1)
        self._teller = Teller(hooks, self._threads)
        self._task = asyncio.create_task(self._run(), name="lockwork-ended")

    async def idle(self) -> None:
        """Wait until all that was heard so far is told."""
        await self._lines.join()

    async def tell_buried(self, queue: str, buried: Sequence[Buried]) -> None:
        """Tell of jobs that went to the dead set with this process itself, whose supervisor is gone."""
        for job in buried:
            self._lines.put_nowait(msgspec.json.encode(_buried(queue, job)))
        await self.idle()

    async def close(self) -> None:
        """Tell nothing more."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._threads.close()

    async def _run(self) -> None:
        mine = Slot()
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

    async def _tell(self, ended: Ended, mine: Slot) -> None:
        id, token, kind, _, delay_ms = ended.outcome
        leased = Leased(id, token, b"", records.counts(token).attempts, int(token.split(b" ")[1]))
        mine.job = job = JobContext(leased, ended.task, self._desks[ended.queue])
        job.over = True
        if not ended.seconds:
            await self._teller.died(job, WorkerDied(ended.problem))
            return
        error = killed_after(ended.seconds)
        end = End("dead", error) if kind == "d" else End("retry", error, delay_ms / 1000)
        await self._teller.ended(job, ended.seconds, None, CANCEL if kind == "c" else end)


def _buried(queue: str, job: Buried) -> Ended:
    return Ended(queue, job.task, Outcome(job.id, b"%d 0" % job.attempt, "d"), problem=job.problem)
