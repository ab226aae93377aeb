"""Hard time-outs of jobs that run in a worker process itself: its supervisor kills the process.

The worker process reports when such a job starts, how long it may take, with which outcome it ends after that, and when
it has ended.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from lockwork.logs import Log
from lockwork.protocol.queues.leases import Outcome
from lockwork.runtime.clock import now
from lockwork.worker.ipc.messages import Reporter

log: Log = Log("lockwork.worker")

_BEGUN, _ENDED = "begun", "ended"


class HardTimeout(NamedTuple):
    """A job's hard time-out, and its outcome if it takes longer."""

    queue: str
    outcome: Outcome
    seconds: float
    """The hard time-out."""
    task: str


_begun = msgspec.json.Decoder(HardTimeout)
_ended = msgspec.json.Decoder(tuple[str, str])


class TimeLimits:
    """The worker process's side, for one queue."""

    def __init__(self, reporter: Reporter, queue: str) -> None:
        self._reporter = reporter
        self._queue = queue

    def begun(self, outcome: Outcome, seconds: float, task: str) -> None:
        """Report that a job started; after `seconds` the supervisor kills this process and settles `outcome`."""
        text = msgspec.json.encode(HardTimeout(self._queue, outcome, seconds, task)).decode()
        self._reporter.report(f"{_BEGUN} {text}")

    def ended(self, id: str) -> None:
        """Report that the job has ended."""
        self._reporter.report(f"{_ENDED} {msgspec.json.encode((self._queue, id)).decode()}")


class HardTimeouts:
    """The supervisor's side; `on_over(session, hard_timeouts)` is called on a thread that is started for the first job.

    All jobs of the session that are over their limit come in one call, because the process is killed only once.
    """

    def __init__(self, on_over: Callable[[str, list[HardTimeout]], None]) -> None:
        self._on_over = on_over
        self._running: dict[str, dict[tuple[str, str], tuple[float, HardTimeout]]] = {}
        self._changed = threading.Condition()
        self._wakes = float("inf")
        self._stopped = False
        self._thread: threading.Thread | None = None

    def receive(self, session: str, text: str) -> None:
        """Receive a child's report."""
        kind, _, rest = text.partition(" ")
        try:
            if kind == _BEGUN:
                self._add(session, _begun.decode(rest))
            elif kind == _ENDED:
                key = _ended.decode(rest)
                with self._changed:
                    self._running.get(session, {}).pop(key, None)
        except msgspec.DecodeError as error:
            log.error("a report of a worker process about a hard time-out cannot be read: %s", error)

    def forget(self, session: str) -> None:
        """Forget the jobs of a child that is gone."""
        with self._changed:
            self._running.pop(session, None)

    def stop(self) -> None:
        """Watch nothing any more."""
        with self._changed:
            self._stopped = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()

    def _add(self, session: str, heard: HardTimeout) -> None:
        deadline = now() + heard.seconds
        with self._changed:
            key = heard.queue, heard.outcome.id
            self._running.setdefault(session, {})[key] = deadline, heard
            if deadline < self._wakes:
                self._changed.notify()
            if self._thread is None and not self._stopped:
                thread = threading.Thread(target=self._main, name="lockwork-hard-timeouts", daemon=True)
                thread.start()  # raises when the system has none to give; then the next job's try may be luckier
                self._thread = thread

    def _main(self) -> None:
        while True:
            with self._changed:
                deadlines = [deadline for held in self._running.values() for deadline, _ in held.values()]
                self._wakes = min(deadlines, default=float("inf"))
                if not self._stopped and self._wakes > now():
                    self._changed.wait(min(self._wakes - now(), threading.TIMEOUT_MAX))
                if self._stopped:
                    return
                over = self._over(now())
            for session, hard_timeouts in over:
                self._on_over(session, hard_timeouts)

    def _over(self, at: float) -> list[tuple[str, list[HardTimeout]]]:
        """Remove and return the sessions that have a job over its limit."""
        found: list[tuple[str, list[HardTimeout]]] = []
        for session, held in list(self._running.items()):
            late = [hard_timeout for deadline, hard_timeout in held.values() if deadline <= at]
            if late:
                found.append((session, late))
                del self._running[session]
        return found
