"""Giving back the jobs of children that have ended, as soon as the server lets us."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lockwork.app.lockwork import Lockwork
from lockwork.errors import LockworkError, ServerRefused
from lockwork.logs import Log
from lockwork.protocol.keys import MOST_PARTITIONS, QueueKeys
from lockwork.protocol.queues import sessions
from lockwork.protocol.queues import status as queue_status
from lockwork.runtime.clock import now
from lockwork.validation import several
from lockwork.worker.environment import AGAIN
from lockwork.worker.supervisor.child_process import WorkerProcess
from lockwork.worker.supervisor.heartbeat import Heartbeat

log: Log = Log("lockwork.worker")

_STATUS_PATIENCE = 1.0


def warn_of_leftovers(app: Lockwork, queues: Sequence[str]) -> None:
    """Look once at each partitioned queue's own name, and at the partition behind its last one."""
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
        return 0  # what is wrong with the server is for others to say
    return status.ready + status.scheduled + status.blocked


_PATIENCE = 1.0
"""Seconds to wait for the server: the supervisor has other things to look after."""


class SessionCleanup:
    """Ends the sessions of children that are gone; `again(seconds)` asks for another `catch_up` after a while."""

    def __init__(self, heartbeat: Heartbeat, again: Callable[[float], None]) -> None:
        self._heartbeat = heartbeat
        self._again = again
        self._complaint = 0.0
        """When the next one about those below is due."""
        self._lingering: list[WorkerProcess] = []
        """Children that have ended, and whose sessions could not be ended yet."""
        self._away = False
        """Whether the server was not there when it was last asked."""

    def give_back(self, child: WorkerProcess, *, leaving: bool = False, again: bool = False) -> int:
        """Return the jobs of a child to the queue; returns their number. `leaving`: the supervisor has to go, too."""
        # a server that was not there a moment ago is asked no more by a supervisor that has to go
        if self._away and leaving:
            return 0
        try:
            given = self._heartbeat.leave(
                child.session,
                _PATIENCE,
                counted=not child.orderly,
                hard_timeouts=child.hard_timeouts,
                without=child.without,
            )
        except LockworkError as error:
            self._away = not isinstance(error, ServerRefused)
            # should we not live to do it, its lease runs out, and then any worker gives its jobs back
            if not again or now() >= self._complaint:
                self._complaint = now() + AGAIN
                log.error("the jobs of worker process %d could not be returned to the queue yet: %s", child.pid, error)
            self._lingering.append(child)
            self._again(_PATIENCE)
            return 0
        self._away = False
        return given

    def catch_up(self) -> None:
        """Try again with those whose jobs could not be returned."""
        while self._lingering:
            child = self._lingering.pop(0)  # who could not go back is the last to be tried again
            given_back = self.give_back(child, again=True)
            if child in self._lingering:
                return
            jobs = several(given_back, "job", "jobs")
            log.info("the session of worker process %d has ended: %s returned to the queue", child.pid, jobs)
