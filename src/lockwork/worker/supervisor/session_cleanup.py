"""Returns the jobs of ended children, as soon as the server answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lockwork.app.lockwork import Lockwork
from lockwork.errors import LockworkError, ServerRefused
from lockwork.logs import Log
from lockwork.protocol.keys import MOST_PARTITIONS, QueueKeys
from lockwork.protocol.queue import sessions
from lockwork.protocol.queue import status as queue_status
from lockwork.runtime.clock import now
from lockwork.words import several
from lockwork.worker.environment import AGAIN
from lockwork.worker.supervisor.child_process import WorkerProcess
from lockwork.worker.supervisor.heartbeat import Heartbeat

log: Log = Log("lockwork.worker")

_STATUS_PATIENCE = 1.0


def warn_of_leftovers(app: Lockwork, queues: Sequence[str]) -> None:
    """Check once, for each partitioned queue, the unpartitioned name and the partition after the last."""
    for queue, count in ((queue, app.config.partitions.counts.get(queue)) for queue in queues):
        if count is None:
            continue
        if waiting := _waiting(app, queue):
            log.warning(
                "%s in queue %r without partitions, which no worker with partitions serves: run a worker without "
                "partitions until they have ended",
                several(waiting, "job waits", "jobs wait"),
                queue,
            )
        behind = f"{queue}/{count}"
        if count < MOST_PARTITIONS and behind not in queues and (waiting := _waiting(app, behind)):
            log.warning(
                "%s in %r, but here queue %r has only %d partitions: use the same number everywhere, and run the "
                "remaining jobs with --queues %s",
                several(waiting, "job waits", "jobs wait"),
                behind,
                queue,
                count,
                behind,
            )


def _waiting(app: Lockwork, queue: str) -> int:
    keys = QueueKeys(app.config.prefix, queue)
    try:
        status, _ = app.runtime.run(sessions.within(_STATUS_PATIENCE, queue_status.status(keys)))
    except LockworkError:
        return 0  # other parts report server errors
    return status.ready + status.scheduled + status.blocked


_PATIENCE = 1.0
"""Seconds to wait for the server: other work waits for the supervisor."""


class SessionCleanup:
    """Ends the sessions of ended children; calls `again(seconds)` to request a later `catch_up`."""

    def __init__(self, heartbeat: Heartbeat, again: Callable[[float], None]) -> None:
        self._heartbeat = heartbeat
        self._again = again
        self._complaint = 0.0
        """Time of the next warning about `_lingering`."""
        self._lingering: list[WorkerProcess] = []
        """Ended children whose sessions are still open."""
        self._away = False
        """True if the server did not answer the last call."""

    def give_back(self, child: WorkerProcess, *, leaving: bool = False, again: bool = False) -> int:
        """Return the jobs of a child to the queue; return their number. leaving: the supervisor also has to exit."""
        # an exiting supervisor does not retry a server that just failed to answer
        if self._away and leaving:
            return 0
        try:
            job_count = self._heartbeat.leave(
                child.session,
                _PATIENCE,
                counted=not child.orderly,
                hard_timeouts=child.hard_timeouts,
                without=child.without,
            )
        except LockworkError as error:
            self._away = not isinstance(error, ServerRefused)
            # if the supervisor dies first, the lease expires, and any worker returns the jobs
            if not again or now() >= self._complaint:
                self._complaint = now() + AGAIN
                log.error("the jobs of worker process %d could not be returned to the queue yet: %s", child.pid, error)
            self._lingering.append(child)
            self._again(_PATIENCE)
            return 0
        self._away = False
        return job_count

    def catch_up(self) -> None:
        """Retry the children whose jobs could not be returned."""
        while self._lingering:
            child = self._lingering.pop(0)  # a child that fails again moves to the end
            given_back = self.give_back(child, again=True)
            if child in self._lingering:
                return
            jobs = several(given_back, "job")
            log.info("the session of worker process %d has ended: %s returned to the queue", child.pid, jobs)
