"""What a worker says when jobs wait where nobody will serve them, because the number of partitions was changed."""

from __future__ import annotations

from collections.abc import Sequence

from lockwork.app.lockwork import Lockwork
from lockwork.validation import several
from lockwork.errors import LockworkError
from lockwork.logs import Log
from lockwork.protocol.keys import MOST_PARTITIONS, QueueKeys
from lockwork.protocol.queues import sessions
from lockwork.protocol.queues import status as queue_status

log: Log = Log("lockwork.worker")

_PATIENCE = 1.0


def warn_of_leftovers(app: Lockwork, queues: Sequence[str]) -> None:
    """Look once at each partitioned queue's own name, and at the partition behind its last one."""
    for queue, count in ((queue, app.config.partitions.counts.get(queue)) for queue in queues):
        if count is None:
            continue
        if waiting := _waiting(app, queue):
            log.warning(
                "%s in queue %r as it was without partitions, and no worker that has partitions serves such jobs:"
                " let one run that has none until they are done",
                several(waiting, "job waits", "jobs wait"),
                queue,
            )
        behind = f"{queue}/{count}"
        if count < MOST_PARTITIONS and behind not in queues and (waiting := _waiting(app, behind)):
            log.warning(
                "%s in %r, but here queue %r has only %d partitions: is the number the same everywhere? What"
                " is left is worked off with --queues %s",
                several(waiting, "job waits", "jobs wait"),
                behind,
                queue,
                count,
                behind,
            )


def _waiting(app: Lockwork, queue: str) -> int:
    keys = QueueKeys(app.config.prefix, queue)
    try:
        status, _ = app.runtime.run(sessions.within(_PATIENCE, queue_status.status(keys)))
    except LockworkError:
        return 0  # what is wrong with the server is for others to say
    return status.ready + status.scheduled + status.blocked
