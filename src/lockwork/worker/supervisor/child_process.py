"""One worker process, as its supervisor sees it."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import secrets
import select
import subprocess
import sys
from dataclasses import dataclass, field

from lockwork.protocol.queues.status import session_name
from lockwork.runtime.clock import now
from lockwork.worker.environment import resident
from lockwork.worker.ipc.messages import (
    DONE,
    REASONS,
    HardTimeout,
    KilledJob,
    Load,
    RaiseUrgency,
    RunnerExited,
    RunnerStarted,
    encoded_line,
    fate,
)
from lockwork.worker.settings import ProcessSettings


@dataclass(slots=True, eq=False)
class WorkerProcess:
    """A process and its session."""

    process: subprocess.Popen[bytes]
    session: str
    started: float
    ready: bool = False
    replace_reason: str = ""
    """Why it is replaced, empty if it is not; it works until its successor is ready."""
    retiring: bool = False
    """Whether it is to finish its jobs and exit."""
    killed: bool = False
    """Whether it was killed because it had to end."""
    without: list[str] = field(default_factory=list)
    """Queues that have refused its session: it does not ask them for jobs."""
    limit: int | None = None
    """Bytes of memory beyond which it is replaced."""
    hard_timeouts: list[HardTimeout] = field(default_factory=list)
    """Of the jobs for which it was killed."""
    sent_early: list[KilledJob] = field(default_factory=list)
    """Jobs of other children that were sent to it before it was ready."""
    load: Load | None = None
    """As it reported it last."""
    runners: dict[int, None] = field(default_factory=dict)
    """The runner processes that it has reported, by their numbers."""

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.process.pid

    @property
    def active(self) -> bool:
        """Whether it is neither being replaced nor retiring."""
        return not self.replace_reason and not self.retiring

    @property
    def orderly(self) -> bool:
        """Whether it ended on request, so its unfinished jobs do not count as attempts."""
        return self.killed or self.process.returncode == DONE

    def memory(self) -> int | None:
        """Its resident memory in bytes; None if the system does not say."""
        return resident(self.pid)

    def memory_of_runners(self) -> list[int]:
        """The resident memory of each of its runners, where known."""
        sizes = map(resident, list(self.runners))
        return [size for size in sizes if size is not None]

    def on_runner_report(self, message: RunnerStarted | RunnerExited) -> str:
        """Update `runners`; returns why the runner is replaced, empty if it is not."""
        if isinstance(message, RunnerStarted):
            self.runners[message.pid] = None
            return ""
        self.runners.pop(message.pid, None)
        return message.reason if message.reason in REASONS else ""

    def kill(self) -> None:
        """End it at once."""
        self.killed = True
        self.process.kill()

    def writable(self) -> bool:
        """Whether its standard input takes a line of 4 KiB without blocking."""
        assert self.process.stdin is not None
        poll = select.poll()
        poll.register(self.process.stdin, select.POLLOUT)
        return poll.poll(0) == [(self.process.stdin.fileno(), select.POLLOUT)]

    def send(self, message: ProcessSettings | RaiseUrgency | KilledJob) -> None:
        """Write a message to its standard input."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(encoded_line(message))
            self.process.stdin.flush()
        except OSError:
            pass  # it has ended: its watcher reports that

    def close_input(self) -> None:
        """Close our end of its standard input."""
        assert self.process.stdin is not None
        # messages that it did not read are still in the buffer, and closing tries to send them
        with contextlib.suppress(OSError):
            self.process.stdin.close()

    @property
    def fate(self) -> str:
        """The exit status or the signal that ended it."""
        return fate(self.process.returncode)


def start(loop: str, descriptor: int) -> WorkerProcess:
    """Start a child that waits for its settings; it reports to the socket `descriptor`."""
    environment = dict(os.environ)
    environment.pop("NOTIFY_SOCKET", None)  # the service manager is the supervisor's
    process = subprocess.Popen(  # noqa: S603 - our own command
        [sys.executable, "-m", "lockwork.worker.process.main", loop, str(descriptor)],
        stdin=subprocess.PIPE,
        pass_fds=[descriptor],
        process_group=0,
        env=environment,
    )
    host = re.sub(r"[^\w.-]", "-", platform.node()) or "localhost"
    return WorkerProcess(process, session_name(host, process.pid, secrets.token_hex(4)), now())
