"""Hard time-outs of jobs that run in a worker process: its supervisor kills the process.

The worker process reports the start of such a job with its limit and the outcome for an overrun, and later its end.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from lockwork.protocol.queue.leases import Outcome
from lockwork.runtime.clock import now
from lockwork.worker.ipc.messages import HardTimeout, HardTimeoutEnded, Reporter


class TimeLimits:
    """The worker process's side, for one queue."""

    def __init__(self, reporter: Reporter, queue: str) -> None:
        self._reporter = reporter
        self._queue = queue

    def started(self, outcome: Outcome, seconds: float, task: str) -> None:
        """Report that a job started; after `seconds` the supervisor kills this process and settles `outcome`."""
        self._reporter.report(HardTimeout(self._queue, outcome, seconds, task))

    def ended(self, id: str) -> None:
        """Report that the job ended."""
        self._reporter.report(HardTimeoutEnded(self._queue, id))


class HardTimeouts:
    """The supervisor's side; calls `on_over(session, hard_timeouts)` on a thread that starts with the first job.

    One call has all jobs of the session that exceeded their limits, because the process is killed only once.
    """

    def __init__(self, on_over: Callable[[str, list[HardTimeout]], None]) -> None:
        self._on_over = on_over
        self._running: dict[str, dict[tuple[str, str], tuple[float, HardTimeout]]] = {}
        self._changed = threading.Condition()
        self._next_deadline = float("inf")
        self._stopped = False
        self._thread: threading.Thread | None = None

    def receive(self, session: str, message: HardTimeout | HardTimeoutEnded) -> None:
        """Receive a worker process's report; raises RuntimeError if the system has no thread for the first job."""
        if isinstance(message, HardTimeout):
            self._add(session, message)
        else:
            with self._changed:
                self._running.get(session, {}).pop((message.queue, message.id), None)

    def forget(self, session: str) -> None:
        """Forget the jobs of a worker process that ended."""
        with self._changed:
            self._running.pop(session, None)

    def stop(self) -> None:
        """Stop watching, and join the thread."""
        with self._changed:
            self._stopped = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()

    def _add(self, session: str, hard_timeout: HardTimeout) -> None:
        deadline = now() + hard_timeout.seconds
        with self._changed:
            key = hard_timeout.queue, hard_timeout.outcome.id
            self._running.setdefault(session, {})[key] = deadline, hard_timeout
            if deadline < self._next_deadline:
                self._changed.notify()
            if self._thread is None and not self._stopped:
                thread = threading.Thread(target=self._main, name="lockwork-hard-timeouts", daemon=True)
                thread.start()  # if the system has no thread now, the next job tries again
                self._thread = thread

    def _main(self) -> None:
        while True:
            with self._changed:
                deadlines = [deadline for jobs in self._running.values() for deadline, _ in jobs.values()]
                self._next_deadline = min(deadlines, default=float("inf"))
                if not self._stopped and self._next_deadline > now():
                    self._changed.wait(min(self._next_deadline - now(), threading.TIMEOUT_MAX))
                if self._stopped:
                    return
                over = self._over(now())
            for session, hard_timeouts in over:
                self._on_over(session, hard_timeouts)

    def _over(self, at: float) -> list[tuple[str, list[HardTimeout]]]:
        """Remove and return the sessions with a job that exceeded its limit."""
        sessions: list[tuple[str, list[HardTimeout]]] = []
        for session, jobs in list(self._running.items()):
            overdue = [hard_timeout for deadline, hard_timeout in jobs.values() if deadline <= at]
            if overdue:
                sessions.append((session, overdue))
                del self._running[session]
        return sessions
