"""How a worker is: for probes, for metrics, and for the supervisor itself."""

from __future__ import annotations

from collections import Counter

from lockwork.runtime.clock import now
from lockwork.worker.supervisor.heartbeat import Heartbeat
from lockwork.worker.supervisor.processes import WorkerProcesses


class WorkerStatus:
    """What can be said from any thread."""

    def __init__(self, crew: WorkerProcesses, heartbeat: Heartbeat, lease: float) -> None:
        self.stopping: bool = False
        self.quiet: bool = False
        """Whether it was told to fetch nothing more."""
        self._crew = crew
        self._heartbeat = heartbeat
        self._lease = lease

    @property
    def alive(self) -> bool:
        """Whether the supervisor still turns, server or no server."""
        return now() - self._heartbeat.turned < max(self._lease, 10.0)

    @property
    def silence(self) -> float:
        """Seconds since the server last answered a heartbeat."""
        return max(0.0, now() - self._heartbeat.last)

    @property
    def trouble(self) -> str:
        """Why no jobs are taken, or that fewer are; empty when all is well."""
        if self.stopping:
            return "it is stopping"
        if self.quiet:
            return "it was told to fetch nothing more"
        if (silence := self.silence) >= self._lease:
            return f"the server has not answered for {silence:.0f} s"
        working = self._crew.working
        if working < self._crew.wanted:
            return f"{working} of {self._crew.wanted} processes work"
        return ""

    @property
    def replaced(self) -> Counter[str]:
        """How many children were replaced, by reason."""
        return self._crew.replaced

    @property
    def runners_replaced(self) -> Counter[str]:
        """The same of the runner processes of all children."""
        return self._crew.runners_replaced

    def memory(self) -> list[list[int]]:
        """Bytes that each child has in memory, and behind it those of its runners, as far as that can be told."""
        return self._crew.memory()
