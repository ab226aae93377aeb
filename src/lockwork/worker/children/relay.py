"""Hooks of jobs whose process had to be killed: the supervisor knows what became of them, and another child is told.

Each is passed on once. A child that dies before it has called the hooks takes that with it, as it does of its own jobs.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Mapping

import msgspec

from lockwork.hooks import Hooks
from lockwork.logs import Log
from lockwork.protocol.queues.jobs import Leased
from lockwork.worker.children.overruns import Verdict
from lockwork.worker.children.process import Child
from lockwork.worker.job.context import Desk, JobContext, Slot, slot
from lockwork.worker.job.telling import CANCEL, End, Teller
from lockwork.worker.job.threads import Threads, killed_after
from lockwork.worker.options import ENDED

log: Log = Log("lockwork.worker")

_verdict = msgspec.json.Decoder(Verdict)


class Relay:
    """The supervisor's side; only its main thread is here."""

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks
        self._untold: deque[Verdict] = deque()

    def add(self, verdict: Verdict) -> None:
        """A job has been settled, and hooks are to be told of it."""
        self._untold.append(verdict)

    def pass_on(self, children: Iterable[Child]) -> None:
        """Tell a child of what nobody was told of yet: one that starts, and hears it before any job, else another."""
        if not self._untold:
            return
        for child in sorted(children, key=lambda child: (not child.fresh, child.ready)):
            while self._untold and not child.killed and child.can_hear():
                verdict = self._untold.popleft()
                if not child.ready:
                    child.told.append(verdict)
                # the error is made again from its seconds: a short line never waits for its reader
                outcome = verdict.outcome._replace(value=b"")
                child.tell(ENDED + msgspec.json.encode(verdict._replace(outcome=outcome)) + b"\n")

    def gone(self, child: Child) -> None:
        """A child has ended: one that never came to work has told nobody."""
        if not child.ready and not child.orderly:
            self._untold.extendleft(reversed(child.told))

    def close(self) -> None:
        """There is nobody left to tell."""
        if self._untold and self._hooks.in_worker:
            ids = ", ".join(verdict.outcome.id for verdict in self._untold)
            log.warning("no worker process is left to tell the hooks of what was over its hard time-out: %s", ids)


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
                await self._tell(_verdict.decode(line), mine)
            except (ValueError, KeyError) as error:
                log.error("what the supervisor says of a job that has ended cannot be read: %r", error)
            finally:
                mine.job = None
                self._lines.task_done()

    async def _tell(self, verdict: Verdict, mine: Slot) -> None:
        id, token, kind, _, delay_ms = verdict.outcome
        attempt, fence = (int(part.rstrip(b"*")) for part in token.split(b" ")[:2])
        leased = Leased(id, token, b"", attempt, fence)
        mine.job = job = JobContext(leased, verdict.task, self._desks[verdict.queue])
        job.over = True
        error = killed_after(verdict.seconds)
        end = End("dead", error) if kind == "d" else End("retry", error, delay_ms / 1000)
        await self._teller.ended(job, verdict.seconds, None, CANCEL if kind == "c" else end)
