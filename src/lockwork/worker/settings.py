"""The options of a worker, and the settings that its supervisor sends to each worker process."""

from __future__ import annotations

import signal

import msgspec


def handled_signals() -> list[signal.Signals]:
    """Return the signals that a worker handles. SIGHUP is left out if it is ignored, as under nohup."""
    hangup = [] if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else [signal.SIGHUP]
    return [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, *hangup]


class WorkerOptions(msgspec.Struct, frozen=True):
    """Durations in seconds, sizes in bytes; `app` is the text `module:object`."""

    app: str
    queues: list[str]
    processes: int
    concurrency: int
    lease: float
    grace: float
    weights: list[int] | None = None
    """Weight of each queue; without weights, the worker serves the queues strictly in order."""
    burst: bool = False
    """End when no queue has a job that can run now."""
    once: bool = False
    """End after one job."""
    wait: bool = True
    """True if a starting worker waits for an unreachable server."""
    max_jobs: int | None = None
    max_memory: int | None = None
    max_time: float | None = None
    exit_after: float | None = None
    """Stop the worker in order after this time."""
    exit_memory: int | None = None
    """Stop the worker in order when all its processes together use more memory."""
    runners: int | None = None
    """Runner processes for `executor="process"` tasks in each child; default: the number of processors."""
    log_level: str | None = None
    log_format: str | None = None
    discover: list[str] = []
    """Packages whose modules `tasks` each process imports after the app."""

    @property
    def ends(self) -> bool:
        """True if a worker process may end when its work is done."""
        return self.burst or self.once


class ProcessSettings(msgspec.Struct, frozen=True):
    """The first line that a child reads: its options, and the session that leases its jobs."""

    options: WorkerOptions
    session: str
    without: list[str] = []
    """Queues, or partitions, that refused the session."""
    isolates: bool = False
    """True if the process runs only suspects, one at a time."""
    embedded: bool = False
    """True if another program's process runs the worker: then no job runs in a runner, or is killed."""
