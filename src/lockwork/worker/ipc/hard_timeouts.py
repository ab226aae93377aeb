"""Hard time-outs of jobs that run in a worker child itself: its supervisor kills it, whatever it is busy with.

The child says when such a job begins, how long it may take, and what is to become of it after that; and when it ends.
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
    """What becomes of a job of a queue that took too long."""

    queue: str
    outcome: Outcome
    seconds: float
    """Its hard time-out."""
    task: str


_begun = msgspec.json.Decoder(HardTimeout)
_ended = msgspec.json.Decoder(tuple[str, str])


class TimeLimits:
    """A child's side, for one queue."""

    def __init__(self, reporter: Reporter, queue: str) -> None:
        self._reporter = reporter
        self._queue = queue

    def begun(self, outcome: Outcome, seconds: float, task: str) -> None:
        """The job may run for so long from now on, and `outcome` is what becomes of it then."""
        text = msgspec.json.encode(HardTimeout(self._queue, outcome, seconds, task)).decode()
        self._reporter.tell(f"{_BEGUN} {text}")

    def ended(self, id: str) -> None:
        """The job has come to its end."""
        self._reporter.tell(f"{_ENDED} {msgspec.json.encode((self._queue, id)).decode()}")


class HardTimeouts:
    """The supervisor's side; `on_over(session, verdicts)` is called on a thread that is started for the first job.

    All that were too long when one of them was are named together: the process can be killed only once.
    """

    def __init__(self, on_over: Callable[[str, list[HardTimeout]], None]) -> None:
        self._on_over = on_over
        self._running: dict[str, dict[tuple[str, str], tuple[float, HardTimeout]]] = {}
        self._changed = threading.Condition()
        self._wakes = float("inf")
        self._stopped = False
        self._thread: threading.Thread | None = None

    def hear(self, session: str, text: str) -> None:
        """Hear what a child reports."""
        kind, _, rest = text.partition(" ")
        try:
            if kind == _BEGUN:
                self._add(session, _begun.decode(rest))
            elif kind == _ENDED:
                key = _ended.decode(rest)
                with self._changed:
                    self._running.get(session, {}).pop(key, None)
        except msgspec.DecodeError as error:
            log.error("what a worker process reports of a hard time-out cannot be read: %s", error)

    def forget(self, session: str) -> None:
        """The child is gone."""
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
                thread = threading.Thread(target=self._main, name="lockwork-overruns", daemon=True)
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
            for session, verdicts in over:
                self._on_over(session, verdicts)

    def _over(self, at: float) -> list[tuple[str, list[HardTimeout]]]:
        """Take out the sessions that have a job which is too long."""
        found: list[tuple[str, list[HardTimeout]]] = []
        for session, held in list(self._running.items()):
            late = [verdict for deadline, verdict in held.values() if deadline <= at]
            if late:
                found.append((session, late))
                del self._running[session]
        return found
