"""One worker process, as its supervisor sees it."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import select
import subprocess
import sys

from msgspec import Struct, field

from lockwork.hashes import random_bytes
from lockwork.protocol.queue.status import session_name
from lockwork.runtime.clock import now
from lockwork.worker.environment import resident
from lockwork.worker.ipc.messages import (
    DONE,
    REASONS,
    HardTimeout,
    KilledJob,
    Load,
    RunnerExited,
    RunnerStarted,
    ToWorkerProcess,
    encoded_line,
    fate,
)
from lockwork.worker.settings import ProcessSettings


class WorkerProcess(Struct, eq=False):
    """A process and its session."""

    process: subprocess.Popen[bytes]
    session: str
    started: float
    isolates: bool = False
    """True if the process runs only suspects, one at a time."""
    ready: bool = False
    replace_reason: str = ""
    """Reason for its replacement; empty if none is planned. The process works until its successor is ready."""
    retiring: bool = False
    """True if the process should finish its jobs and exit."""
    killed: bool = False
    """True if the supervisor killed the process."""
    without: list[str] = field(default_factory=list)
    """Queues that refused its session: the process does not fetch from them."""
    limit: int | None = None
    """Memory limit in bytes; beyond it, the process is replaced."""
    hard_timeouts: list[HardTimeout] = field(default_factory=list)
    """Hard time-outs of the jobs that made the supervisor kill the process."""
    sent_early: list[KilledJob] = field(default_factory=list)
    """Killed jobs of other children, sent before this process was ready."""
    load: Load | None = None
    """Last reported load."""
    runners: dict[int, None] = field(default_factory=dict)
    """Runner processes that it reported, by number."""

    @property
    def pid(self) -> int:
        """Process id."""
        return self.process.pid

    @property
    def active(self) -> bool:
        """True if the process is neither being replaced nor retiring."""
        return not self.replace_reason and not self.retiring

    @property
    def orderly(self) -> bool:
        """True if the process ended on request; then its unfinished jobs do not count as attempts."""
        return self.killed or self.process.returncode == DONE

    def memory(self) -> int | None:
        """Resident memory in bytes; None if the system does not report it."""
        return resident(self.pid)

    def memory_of_runners(self) -> list[int]:
        """Resident memory of each runner, where the system reports it."""
        sizes = map(resident, list(self.runners))
        return [size for size in sizes if size is not None]

    def on_runner_report(self, message: RunnerStarted | RunnerExited) -> str:
        """Update `runners`; return the reason to replace the runner, or an empty string."""
        if isinstance(message, RunnerStarted):
            self.runners[message.pid] = None
            return ""
        self.runners.pop(message.pid, None)
        return message.reason if message.reason in REASONS else ""

    def idle_on(self, queue: str) -> bool:
        """Return True if the process fetches jobs and had none of this queue in its last report."""
        load = self.load
        if not self.ready or load is None or len(load.jobs) < load.busy:
            return False
        return all(job.queue != queue for job in load.jobs)

    def kill(self) -> None:
        """Kill the process at once."""
        self.killed = True
        self.process.kill()

    def writable(self) -> bool:
        """Return True if its standard input accepts a line of 4 KiB without blocking."""
        assert self.process.stdin is not None
        poll = select.poll()
        poll.register(self.process.stdin, select.POLLOUT)
        return poll.poll(0) == [(self.process.stdin.fileno(), select.POLLOUT)]

    def send(self, message: ProcessSettings | ToWorkerProcess) -> None:
        """Write a message to the process's standard input."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(encoded_line(message))
            self.process.stdin.flush()
        except OSError:
            pass  # the process ended: its watcher reports that

    def close_input(self) -> None:
        """Close the supervisor's end of the process's standard input."""
        assert self.process.stdin is not None
        # closing tries to send buffered messages that the process did not read
        with contextlib.suppress(OSError):
            self.process.stdin.close()

    @property
    def fate(self) -> str:
        """Exit status or signal that ended the process."""
        return fate(self.process.returncode)


def start(loop: str, descriptor: int) -> WorkerProcess:
    """Start a child that waits for its settings; it reports to the socket `descriptor`."""
    environment = dict(os.environ)
    environment.pop("NOTIFY_SOCKET", None)  # NOTIFY_SOCKET belongs to the supervisor
    process = subprocess.Popen(  # noqa: S603 - our own command
        [sys.executable, "-m", "lockwork.worker.process.main", loop, str(descriptor)],
        stdin=subprocess.PIPE,
        pass_fds=[descriptor],
        process_group=0,
        env=environment,
    )
    host = re.sub(r"[^\w.-]", "-", platform.node()) or "localhost"
    return WorkerProcess(process, session_name(host, process.pid, random_bytes(4).hex()), now())
