"""The context of a job as in a worker, for test code in a thread or asyncio task."""

from __future__ import annotations

from typing import Any

from lockwork.jobs.current import JobContext, SlotContext


class _Leased:
    """The part of a lease that locks read."""

    def __init__(self, id: str) -> None:
        self.id = id


def running(id: str, task: str) -> SlotContext:
    """Return a value for `slot` that marks this job as running."""
    leased: Any = _Leased(id)
    queue_context: Any = None
    here = SlotContext()
    here.job = JobContext(leased, task, queue_context)
    return here
