"""The status of a worker, for health checks, metrics and the supervisor."""

from __future__ import annotations

from collections import Counter
from typing import Protocol

from lockwork import words
from lockwork.runtime.clock import now
from lockwork.worker.ipc.messages import Load
from lockwork.worker.supervisor.heartbeat import Heartbeat
from lockwork.worker.supervisor.task_times import TaskTimes


class ReportingProcesses(Protocol):
    """The processes of a worker, as its status shows them."""

    @property
    def working(self) -> int: ...
    @property
    def wanted(self) -> int: ...
    @property
    def isolating(self) -> int: ...
    @property
    def replaced(self) -> Counter[str]: ...
    @property
    def runners_replaced(self) -> Counter[str]: ...
    def loads(self) -> list[Load]: ...
    def memory(self) -> list[list[int]]: ...


class WorkerStatus:
    """The worker's status; safe to read from any thread."""

    def __init__(self, processes: ReportingProcesses, heartbeat: Heartbeat, lease: float) -> None:
        self.stopping: bool = False
        self.quiet: bool = False
        """True after SIGUSR1 or an order stopped fetching."""
        self.times: TaskTimes = TaskTimes()
        self._processes = processes
        self._heartbeat = heartbeat
        self._lease = lease

    @property
    def alive(self) -> bool:
        """True if the supervisor's loop still runs, with or without the server."""
        return now() - self._heartbeat.turned < max(self._lease, 10.0)

    @property
    def silence(self) -> float:
        """Seconds since the server last answered a heartbeat."""
        return max(0.0, now() - self._heartbeat.last)

    @property
    def trouble(self) -> str:
        """Reason why the worker takes no jobs, or fewer than it should; empty if all is well."""
        if self.stopping:
            return "it is stopping"
        if self.quiet:
            return "it is quiet and fetches no more jobs"
        if (silence := self.silence) >= self._lease:
            return f"the server has not answered for {words.rough_age(silence)}"
        working = self._processes.working
        if working < self._processes.wanted:
            return f"{working} of {self._processes.wanted} processes work"
        return ""

    @property
    def replaced(self) -> Counter[str]:
        """Number of replaced children, by reason."""
        return self._processes.replaced

    @property
    def runners_replaced(self) -> Counter[str]:
        """Number of replaced runners of all children, by reason."""
        return self._processes.runners_replaced

    @property
    def isolating(self) -> int:
        """Number of isolation processes."""
        return self._processes.isolating

    def loads(self) -> list[Load]:
        """Loads of the children that have reported one."""
        return self._processes.loads()

    def memory(self) -> list[list[int]]:
        """Resident memory in bytes of each child and of its runners, where the system reports it."""
        return self._processes.memory()
