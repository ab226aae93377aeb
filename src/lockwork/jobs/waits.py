"""Waits for results inside of jobs: a worker announces them, because a waiting job keeps its slot."""

from __future__ import annotations

from types import TracebackType
from typing import Protocol as Shape

from lockwork.errors import LockworkError
from lockwork.jobs.current import JobContext, jobs_here
from lockwork.logs import Log
from lockwork.protocol.effects import Protocol
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import job_control as control
from lockwork.protocol.queue import sessions
from lockwork.runtime.clock import now
from lockwork.runtime.runtime import Runtime

log: Log = Log("lockwork")

_PATIENCE = 0.5
"""Seconds to find out whether a worker serves a queue."""


class Awaited(Shape):
    """The job or flow that a job awaits."""

    id: str

    @property
    def queue(self) -> str:
        """The queue of the job or flow."""
        ...


class Wait:
    """One wait of the current job; without a job, entering it does nothing.

    `partition`: if that is not the target's `queue`.
    """

    __slots__ = ("_jobs", "_partition", "_target", "since")

    def __init__(self, target: Awaited, partition: str = "") -> None:
        self._target = target
        self._partition = partition
        self.since: float = 0.0
        self._jobs: list[JobContext] = []

    @property
    def id(self) -> str:
        """The id of the job or flow."""
        return self._target.id

    @property
    def queue(self) -> str:
        """The queue of the job or flow; the first searched queue if the job was not found yet."""
        return self._partition or self._target.queue

    def __enter__(self) -> None:
        self._jobs = jobs_here()
        if self._jobs:
            self.since = now()
            for job in self._jobs:
                job.begin_wait(self)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for job in self._jobs:
            job.end_wait(self)


def warn_if_unserved(runtime: Runtime, keys: QueueKeys, id: str, what: str) -> Protocol[None]:
    """Log that a wait without a time-out may never end, if no worker serves the queue; `what` is waited for."""
    if text := (yield from unserved_text(runtime, keys, id)):
        log.warning("result() of %s waits without a timeout, and %s: start a worker, or pass a timeout", what, text)


def unserved_text(runtime: Runtime, keys: QueueKeys, id: str) -> Protocol[str]:
    """Say that no worker serves the queue of a job or flow; "" if one does, or if that is not known."""
    try:
        place = yield from sessions.within(_PATIENCE, control.find_place(keys, id))
    except LockworkError:
        return ""
    if place.workers or place.state == "running":
        return ""
    return f"no worker serves queue {keys.name!r}{on_embedded(runtime)}"


def on_embedded(runtime: Runtime) -> str:
    """Name the embedded server after a text about workers, because workers elsewhere do not use it; else ""."""
    return f" on {runtime.embedded}" if runtime.embedded else ""
