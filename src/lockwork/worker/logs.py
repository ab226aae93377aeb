"""Logging of the worker's processes; the library itself never configures logging."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence

from lockwork.counts import several
from lockwork.failures import one_line
from lockwork.logs import Log
from lockwork.protocol.queues.jobs import Buried

log: Log = Log("lockwork.worker")

_NAMED = 10
"""Jobs that one line of the log names."""
AGAIN = 5.0
"""Seconds between two complaints about one trouble that lasts."""


def configure() -> None:
    """Log to standard error, one line a record, unless the app configured logging already."""
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.INFO,
        format="%(asctime)s %(levelname)s [%(process)d] %(name)s: %(message)s",
    )


def log_buried(queue: str, session: str, buried: Sequence[Buried]) -> None:
    """Name the jobs that went to the dead set because of what became of the worker that ran them."""
    named = [f"{job.id} of task {job.task!r} ({job.problem})" for job in buried[:_NAMED]]
    if len(buried) > _NAMED:
        named.append(f"and {len(buried) - _NAMED} more")
    count = several(len(buried), "job goes", "jobs go")
    log.error(
        "queue %s: %s to the dead set with worker session %s: %s", queue, count, session, one_line(", ".join(named))
    )
