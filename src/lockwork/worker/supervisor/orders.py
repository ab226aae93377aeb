"""Orders to a worker: stop, be quiet, resume. They are signals, or come from other programs through the server."""

from __future__ import annotations

import signal
from collections.abc import Callable

from msgspec import Struct

from lockwork import words
from lockwork.logs import Log
from lockwork.worker.ipc.messages import Urgency
from lockwork.worker.settings import WorkerOptions
from lockwork.worker.supervisor.announcer import Announcer
from lockwork.worker.supervisor.heartbeat import Heartbeat
from lockwork.worker.supervisor.processes import WorkerProcesses
from lockwork.worker.supervisor.scheduler import Scheduler
from lockwork.worker.supervisor.status import WorkerStatus
from lockwork.worker.supervisor.systemd import SystemdNotifier

log: Log = Log("lockwork.worker")

_HURRY = 3.0
"""Seconds for children to exit after their grace; then they are killed."""


class Orders(Struct, frozen=True):
    """Carries out orders; `kill_after(seconds)` has all children killed after that time."""

    options: WorkerOptions
    status: WorkerStatus
    processes: WorkerProcesses
    heartbeat: Heartbeat
    scheduler: Scheduler
    announcer: Announcer
    systemd: SystemdNotifier
    kill_after: Callable[[float], None]

    def receive(self, order: int | str) -> None:
        """Carry out an order: the number of a signal, or "stop", "quiet" or "resume" from another program."""
        match order:
            case signal.SIGUSR1 | "quiet":
                self.quiet()
            case "resume":
                self.resume()
            case signal.SIGHUP | "stop":
                if not self.status.stopping:  # SIGHUP is sent twice: by the shell, then by the system
                    self.stop()
            case int():
                self.stop()

    def stop(self) -> None:
        """Stop within the grace; the second time, kill the children at once."""
        again, self.status.stopping = self.status.stopping, True
        self.processes.open = False
        self.scheduler.cease()
        if not again:
            self.heartbeat.announce_stop()
            self.processes.raise_to(Urgency.STOP)
            grace = words.exact(self.options.grace)
            log.info("stopping: running jobs have %s to end (a second signal ends them at once)", grace)
            self.kill_after(self.options.grace + _HURRY)
            self.systemd.notify(STOPPING=1, STATUS="running jobs are finishing")
            self.announcer.changed()
        else:
            log.info("stopping at once: running jobs return to the queue")
            self.processes.kill()

    def quiet(self) -> None:
        """Fetch no more jobs."""
        if not self.status.quiet and not self.status.stopping:
            self.status.quiet = True
            self.processes.open = False
            self.processes.raise_to(Urgency.QUIET)
            log.info("quiet: no more jobs are fetched; running jobs continue")
            self.systemd.notify(STATUS="quiet: no more jobs are fetched")
            self.announcer.changed()

    def resume(self) -> None:
        """Fetch jobs again, in new children."""
        if self.status.quiet and not self.status.stopping:
            self.status.quiet = False
            log.info("resumed: new worker processes fetch jobs")
            self.systemd.notify(STATUS=self.summary)
            self.processes.resume()
            self.announcer.changed()

    @property
    def summary(self) -> str:
        """The status of a worker that fetches jobs, for the service manager."""
        return f"{self.processes.wanted} processes on {', '.join(self.options.queues)}"
