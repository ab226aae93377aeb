"""Follows the jobs of one task through a worker; for integrations that keep results of their own."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Literal, Protocol

from lockwork.jobs.current import JobContext

Ending = Literal["success", "retry", "dead", "snooze", "cancel"]


class TaskObserver(Protocol):
    """Surrounds each call of the task's function, and is called with the end of each attempt, and of each job.

    `run` and `attempted` are called in the process that runs the job.
    """

    async def run(self, job: JobContext, call: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """Call the function, with its dependencies and middlewares and within its time limit; return its value."""

    async def attempted(self, job: JobContext, ending: Ending, error: BaseException | None) -> None:
        """Observe the end of an attempt, when its outcome is on the way to the server, or there already."""

    async def ended(self, job: JobContext, error: BaseException | None) -> None:
        """Observe the end of a tracked job, once, when the server has it.

        The job ran in this process, or it ended while it waited, or its process died. `error` is known only if its last
        attempt failed in this process.
        """
