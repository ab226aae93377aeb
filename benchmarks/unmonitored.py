"""The app of a worker that keeps no history and measures no times, as a floor for one that does."""

from __future__ import annotations

import os

from benchmarks.tasks import register
from lockwork import Lockwork
from lockwork.protocol.queue.leases import Leased
from lockwork.worker.execution.durations import Durations


def _unmeasured(_self: Durations, _job: Leased, _task: str, _seconds: float) -> None:
    pass


Durations.ended = _unmeasured  # type: ignore[assignment]
lw = Lockwork(os.environ.get("LOCKWORK_URL", "redis://localhost:6379"), history="off")
register(lw)
