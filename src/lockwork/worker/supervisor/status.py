"""The status of a worker, for health checks, metrics and the supervisor."""

from __future__ import annotations

from collections import Counter

from lockwork.runtime.clock import now
from lockwork.worker.ipc.messages import Load
from lockwork.worker.supervisor.heartbeat import Heartbeat
from lockwork.worker.supervisor.processes import WorkerProcesses
from lockwork.worker.supervisor.task_times import TaskTimes


class WorkerStatus:
    """The worker's status; safe to read from any thread."""

    def __init__(self, processes: WorkerProcesses, heartbeat: Heartbeat, lease: float) -> None:
        self.stopping: bool = False
        self.quiet: bool = False
        """Whether SIGUSR1 or an order has stopped fetching."""
        self.times: TaskTimes = TaskTimes()
        self._processes = processes
        self._heartbeat = heartbeat
        self._lease = lease

    @property
    def alive(self) -> bool:
        """Whether the supervisor's loop still runs, with or without the server."""
        return now() - self._heartbeat.turned < max(self._lease, 10.0)

    @property
    def silence(self) -> float:
        """Seconds since the server last answered a heartbeat."""
        return max(0.0, now() - self._heartbeat.last)

    @property
    def trouble(self) -> str:
        """Why the worker takes no jobs, or fewer than it should; empty if all is well."""
        if self.stopping:
            return "it is stopping"
        if self.quiet:
            return "it is quiet and fetches no more jobs"
        if (silence := self.silence) >= self._lease:
            return f"the server has not answered for {silence:.0f} s"
        working = self._processes.working
        if working < self._processes.wanted:
            return f"{working} of {self._processes.wanted} processes work"
        return ""

    @property
    def replaced(self) -> Counter[str]:
        """How many children were replaced, by reason."""
        return self._processes.replaced

    @property
    def runners_replaced(self) -> Counter[str]:
        """How many runners of all children were replaced, by reason."""
        return self._processes.runners_replaced

    def loads(self) -> list[Load]:
        """How busy the children are, as far as they have reported."""
        return self._processes.loads()

    def memory(self) -> list[list[int]]:
        """For each child, its resident memory in bytes and that of its runners, where known."""
        return self._processes.memory()
