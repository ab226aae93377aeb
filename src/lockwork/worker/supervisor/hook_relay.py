"""Sends jobs that ended with their process to another worker process, which calls their hooks.

Each job is sent once. If the receiving process dies first, the hooks are not called.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from lockwork.logs import Log
from lockwork.protocol.queue.leases import Buried
from lockwork.tasks.app_context import AppContext
from lockwork.worker.ipc.messages import HardTimeout, KilledJob, buried_job
from lockwork.worker.supervisor.child_process import WorkerProcess

log: Log = Log("lockwork.worker")


class HookRelay:
    """The supervisor's side: any thread adds jobs, the main thread sends them to children."""

    def __init__(self, context: AppContext) -> None:
        self._hooks = context.hooks
        self._waiting: deque[KilledJob] = deque()

    def add(self, hard_timeout: HardTimeout) -> None:
        """Add a job that was killed for its hard time-out and has been settled."""
        outcome = hard_timeout.outcome._replace(value=b"")
        self._waiting.append(KilledJob(hard_timeout.queue, hard_timeout.task, outcome, hard_timeout.seconds))

    def add_buried(self, queue: str, buried: Sequence[Buried]) -> None:
        """Add jobs that were buried because their worker died, if the app has `on_dead` hooks."""
        if self._hooks.on_dead:
            self._waiting.extend(buried_job(queue, job) for job in buried)

    def forward(self, children: Iterable[WorkerProcess]) -> None:
        """Send each waiting job to one child, preferably a starting one: it calls the hooks before it runs jobs."""
        if not self._waiting:
            return
        for child in sorted(children, key=lambda child: (child.isolates, not child.active, child.ready)):
            while self._waiting and not child.killed and child.writable():
                ended = self._waiting.popleft()
                if not child.ready:
                    child.sent_early.append(ended)
                child.send(ended)

    def on_exit(self, child: WorkerProcess) -> None:
        """Take back the jobs sent to a child that ended before it was ready and therefore called no hooks."""
        if not child.ready and not child.orderly:
            self._waiting.extendleft(reversed(child.sent_early))

    def close(self) -> None:
        """Log the jobs whose hooks no worker process will call."""
        if self._waiting and self._hooks.in_worker:
            ids = ", ".join(ended.outcome.id for ended in self._waiting)
            log.warning("no worker process can call the hooks of jobs that ended with their process: %s", ids)
