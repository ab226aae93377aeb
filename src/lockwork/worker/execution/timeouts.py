"""The time-out of a call: raised at its limit, and again while the job ignores it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from lockwork import words
from lockwork.errors import JobTimeout
from lockwork.jobs.current import JobContext, jobs_here
from lockwork.logs import Log
from lockwork.worker.execution.clean_ups import task_cleans_up

log: Log = Log("lockwork.jobs")

AGAIN = 10.0
"""Seconds until a time-out that the job ignores is raised again; this pause doubles each time."""
_SOON = 0.5
"""Seconds until the next try, if the call could not be interrupted without harm."""


class Timeout:
    """Interrupts one call after `seconds`, then after another 10, 20, 40, ... seconds, until closed.

    `interrupt` receives True if the call was interrupted before, and returns False to request a retry soon. `place`
    returns the line of code that the call executes, if known. `jobs` are the jobs of the call.
    """

    def __init__(
        self,
        seconds: float,
        interrupt: Callable[[bool], bool],
        jobs: Sequence[JobContext],
        place: Callable[[], str] = lambda: "",
    ) -> None:
        self._seconds = seconds
        self._interrupt = interrupt
        self._jobs = jobs
        self._place = place
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        self._pause = AGAIN
        self._timer: asyncio.TimerHandle = self._loop.call_later(seconds, self._first)

    def close(self) -> None:
        """Send no more interrupts."""
        self._timer.cancel()

    def overran(self) -> None:
        """Record that the call returned a value after it was interrupted."""
        self._note("%s returned %.1f s after its timeout of %g s, which it ignored: it counts as succeeded")

    def _first(self) -> None:
        self._interrupt(False)
        self._timer = self._loop.call_later(self._pause, self._again)

    def _again(self) -> None:
        if not self._interrupt(True):
            self._timer = self._loop.call_later(_SOON, self._again)
            return
        self._pause *= 2
        self._timer = self._loop.call_later(self._pause, self._again)
        self._note("%s still runs %.1f s after its timeout of %g s%s: the time-out is raised again", self._place())

    def _note(self, text: str, *more: str) -> None:
        if not self._jobs:
            return
        late = self._loop.time() - self._began - self._seconds
        only = self._jobs[0]
        fields = {"job": only.id, "task": only.task, "queue": only.queue, "attempt": only.attempt}
        log.warning(text, shown_jobs(self._jobs), late, self._seconds, *more, extra=fields)
        for job in self._jobs:
            job.note_overrun()


def shown_jobs(jobs: Sequence[JobContext]) -> str:
    """Format the jobs of one call for the log."""
    if len(jobs) == 1:
        return f"job {jobs[0].id} of task {jobs[0].task!r}"
    return f"a call of task {jobs[0].task!r} for {len(jobs)} jobs"


def too_long(seconds: float) -> str:
    """Return the text of the error for a job that was interrupted."""
    return f"it took longer than {words.exact(seconds)}"


async def limited(awaitable: Awaitable[Any], seconds: float, jobs: Sequence[JobContext] | None = None) -> Any:
    """Await for at most `seconds`, then cancel, and again while that is ignored; raises JobTimeout.

    jobs: the jobs that overrun if the awaitable returns a value anyway; None: the jobs of the current slot.
    """
    task = asyncio.current_task()
    assert task is not None
    before, cancelled = task.cancelling(), 0

    def cancel(again: bool) -> bool:
        nonlocal cancelled
        if again and task_cleans_up(task):
            return False
        cancelled += 1
        return task.cancel()

    timeout = Timeout(seconds, cancel, jobs_here() if jobs is None else jobs)
    try:
        try:
            value = await awaitable
        finally:
            timeout.close()
            for _ in range(cancelled):
                task.uncancel()
    except asyncio.CancelledError:
        if cancelled and task.cancelling() <= before:
            raise JobTimeout(too_long(seconds)) from None
        raise
    if cancelled:
        timeout.overran()
    return value
