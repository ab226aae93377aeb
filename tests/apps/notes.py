"""Lines that jobs, hooks and processes append to a file; the tests read them with `History`.

Each line is one write, so that lines of several processes never mix. The workers of the tests find this module in
PYTHONPATH.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from typing import Any

from lockwork import JobContext, current_job


def note(path: str, event: str = "ran", *, job: JobContext | None = None, **facts: Any) -> int:
    """Append an event of a job, by default the current job; return the number of the attempt."""
    job = job or current_job()
    ids = {"id": job.id, "queue": job.queue, "attempt": job.attempt, "fence": job.fence}
    append(path, event, **{**ids, "parent": os.getppid(), "at": time.time(), **facts})
    return job.attempt


def record(event: str, **facts: Any) -> None:
    """Append an event to the file HISTORY."""
    append(os.environ["HISTORY"], event, **facts)


def append(path: str, event: str, **facts: Any) -> None:
    """Append an event to the file `path`."""
    file = _opened(path)
    try:
        os.write(file, _line(event, facts))
    finally:
        os.close(file)


def appender(path: str) -> Callable[..., None]:
    """Return the function `append` for one file, which stays open until the process ends."""
    file = _opened(path)

    def append(event: str, **facts: Any) -> None:
        os.write(file, _line(event, facts))

    return append


def _opened(path: str) -> int:
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)


def _line(event: str, facts: dict[str, Any]) -> bytes:
    return json.dumps({"event": event, "pid": os.getpid(), **facts}).encode() + b"\n"
