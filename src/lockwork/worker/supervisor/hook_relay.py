"""Passes jobs that ended with their process on to another worker process, which calls their hooks.

Each is passed on once. A process that dies before it has called the hooks takes that with it, as it does for its own
jobs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

import msgspec

from lockwork.hooks import Hooks
from lockwork.logs import Log
from lockwork.protocol.queues.leases import Buried
from lockwork.worker.ipc.hard_timeouts import HardTimeout
from lockwork.worker.ipc.messages import EndedJob, buried_job
from lockwork.worker.settings import ENDED
from lockwork.worker.supervisor.child_process import WorkerProcess

log: Log = Log("lockwork.worker")


class HookRelay:
    """The supervisor's side; jobs are added on any thread, and passed on by the main one."""

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks
        self._untold: deque[EndedJob] = deque()

    def add(self, verdict: HardTimeout) -> None:
        """Pass on a job that was over its hard time-out, and has been settled."""
        outcome = verdict.outcome._replace(value=b"")
        self._untold.append(EndedJob(verdict.queue, verdict.task, outcome, verdict.seconds))

    def add_buried(self, queue: str, buried: Sequence[Buried]) -> None:
        """Pass on jobs that went to the dead set because their worker died, if there are hooks at all."""
        if self._hooks.on_dead:
            self._untold.extend(buried_job(queue, job) for job in buried)

    def pass_on(self, children: Iterable[WorkerProcess]) -> None:
        """Tell a child of what nobody was told of yet: one that starts, and hears it before any job, else another."""
        if not self._untold:
            return
        for child in sorted(children, key=lambda child: (not child.fresh, child.ready)):
            while self._untold and not child.killed and child.can_hear():
                ended = self._untold.popleft()
                if not child.ready:
                    child.told.append(ended)
                child.tell(ENDED + msgspec.json.encode(ended) + b"\n")

    def gone(self, child: WorkerProcess) -> None:
        """A child has ended: one that never came to work has told nobody."""
        if not child.ready and not child.orderly:
            self._untold.extendleft(reversed(child.told))

    def close(self) -> None:
        """There is nobody left to tell."""
        if self._untold and self._hooks.in_worker:
            ids = ", ".join(ended.outcome.id for ended in self._untold)
            log.warning("no worker process is left to tell the hooks of jobs that ended with their process: %s", ids)
