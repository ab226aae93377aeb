"""Messages between a supervisor and its worker processes.

To a worker process: lines of JSON on its standard input; the first line is its ProcessSettings. From it: Reports, each
one line of JSON in a datagram, over a socket that all worker processes share.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import threading
from collections import deque
from collections.abc import Callable
from enum import IntEnum
from typing import Annotated, NamedTuple, Protocol

import msgspec

from lockwork.jobs.current import RunnerState
from lockwork.lazy import asyncio
from lockwork.logs import Log
from lockwork.protocol.queue.leases import Buried, Outcome
from lockwork.worker.settings import ProcessSettings

log: Log = Log("lockwork.worker")

_UNREADABLE = (ValueError, RecursionError)
"""Exceptions that a decoder raises for invalid bytes; msgspec's errors are ValueErrors."""

DONE = 77
"""Exit status of a child that ended on request or with its work done; 0 may come from a job's own exit."""
FAILED, SESSION_OVER = 1, 3
NOT_SET_UP = 4
"""Exit status of a child whose set-up failed, so it ran no jobs."""
NOT_IMPORTED = 5
"""Exit status of a child that could not import the app."""
DIED, MAX_JOBS, MAX_MEMORY, MAX_TIME, TOO_LONG, REFUSED = REASONS = (
    "died", "max-jobs", "max-memory", "max-time", "hard-timeout", "refused"
)  # fmt: skip
"""Reasons to replace a process: a child or a runner."""


class KilledJob(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """A job whose process ended before the job did; a short line, so that writing it never blocks."""

    queue: str
    task: str
    outcome: Outcome
    """Outcome without its value: the receiver rebuilds the error from the next fields."""
    seconds: float = 0.0
    """Hard time-out in seconds that caused the kill; 0 for another cause of death."""
    problem: str = ""
    """Reason for the burial if the process died of another cause."""


class UnreportedEnd(NamedTuple):
    """A tracked job that ended while it waited, or whose process died; any worker process may report the end."""

    queue: str
    id: str
    task: str


def buried_job(queue: str, job: Buried) -> KilledJob:
    """Return the message for a job that was buried because its worker died."""
    return KilledJob(queue, job.task, Outcome(job.id, b"%d 0" % job.attempt, "d"), problem=job.problem)


def fate(code: int | None) -> str:
    """Describe how a process with this return code ended."""
    if code is None or code >= 0:
        return f"exit status {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:  # a real-time signal has no name
        return f"killed by signal {-code}"


class Urgency(IntEnum):
    """The urgency of a worker process's end. It only rises."""

    WORK = 0
    QUIET = 1
    """Fetch nothing more."""
    RETIRE = 2
    """Finish the running jobs without a time limit, and exit."""
    STOP = 3
    """Finish the running jobs within the grace, and exit."""
    NOW = 4
    """Exit at once."""


class RaiseUrgency(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Raise the urgency of a worker process to at least this."""

    urgency: Urgency


class SessionLost(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """A queue no longer has the session of a worker process, which rejoins if it has no job of that queue."""

    queue: str


ToWorkerProcess = RaiseUrgency | KilledJob | SessionLost

_from_supervisor: msgspec.json.Decoder[ToWorkerProcess] = msgspec.json.Decoder(ToWorkerProcess)


def encoded_line(message: ProcessSettings | ToWorkerProcess) -> bytes:
    """Encode a message to a worker process as a line."""
    return msgspec.json.encode(message) + b"\n"


class Control:
    """The urgency of a worker process's end, and messages for it. Subclasses receive them."""

    def __init__(self) -> None:
        self.urgency: Urgency = Urgency.WORK
        self.gone: bool = False
        self.supervisor_killed: bool = False
        """True if the supervisor was killed: it is gone, and sent no STOP before."""
        self.ended: asyncio.Queue[KilledJob | UnreportedEnd] = asyncio.Queue()
        """Jobs that ended in other processes."""
        self.on_session_lost: Callable[[str], None] = lambda _queue: None
        self.next_due: Callable[[], float | None] = lambda: None
        """Returns the seconds from the last fetch until a job is due; None without such a job."""
        self._changed = asyncio.Event()

    def orphaned(self) -> bool:
        """Return True if the supervisor is gone."""
        return False

    def ending(self) -> bool:
        """Return True if no more jobs should start in this process."""
        return self.urgency > Urgency.WORK or self.orphaned()

    def raise_to(self, urgency: Urgency) -> None:
        """Raise the urgency to at least this."""
        if urgency > self.urgency:
            self.urgency = urgency
            self._changed.set()

    async def reached(self, urgency: Urgency) -> None:
        """Wait until the urgency is at least this."""
        while self.urgency < urgency:
            self._changed.clear()
            await self._changed.wait()


class PipeControl(Control):
    """Reads the supervisor's messages; the end of the input means that the supervisor is gone."""

    def __init__(self, reader: asyncio.StreamReader, pipe: int) -> None:
        super().__init__()
        self._reader = reader
        self._pipe = os.dup(pipe)  # a duplicate, because the reader closes the original at its end
        self._poll = select.poll()
        self._poll.register(self._pipe, select.POLLHUP)
        self._task = asyncio.create_task(self._read(), name="lockwork-control")

    def orphaned(self) -> bool:
        """Return True if the supervisor is gone. This polls the pipe, because lines read so far may be older."""
        return bool(self._poll.poll(0))

    async def close(self) -> None:
        """Stop reading."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        os.close(self._pipe)

    async def _read(self) -> None:
        while line := await self._reader.readline():
            try:
                message = _from_supervisor.decode(line)
            except _UNREADABLE as error:
                log.error("a message from the supervisor cannot be read: %r", error)
                continue
            if isinstance(message, KilledJob):
                self.ended.put_nowait(message)
            elif isinstance(message, SessionLost):
                self.on_session_lost(message.queue)
            else:
                self.raise_to(message.urgency)
        self.gone = True
        self.supervisor_killed: bool = self.urgency < Urgency.STOP
        self.raise_to(Urgency.NOW)


class Ready(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The worker process fetches jobs."""


class Recycle(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The worker process has run --max-jobs jobs and should be replaced."""


ProcessId = Annotated[int, msgspec.Meta(gt=0)]


class RunnerStarted(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """A runner of the worker process has started."""

    pid: ProcessId


class RunnerExited(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """A runner of the worker process has ended."""

    pid: ProcessId
    reason: str
    """One of REASONS if the runner must be replaced, else empty."""


class HardTimeout(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """A job has started in the worker process: its hard time-out, and its outcome if it takes longer."""

    queue: str
    outcome: Outcome
    seconds: float
    """Hard time-out in seconds."""
    task: str


class HardTimeoutEnded(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The job with a hard time-out has ended."""

    queue: str
    id: str


class AwaitedResult(msgspec.Struct, frozen=True, array_like=True):
    """A job or flow whose result a job has awaited for this number of seconds."""

    id: str
    queue: str
    seconds: float


class BusySlot(msgspec.Struct, frozen=True, array_like=True):
    """A job that a slot of the worker process runs."""

    id: str
    queue: str
    task: str
    since: int
    """The server's time of its start, µs."""
    attempt: int
    waits: list[AwaitedResult] = []
    """Some of the results that it waits for."""
    runner: RunnerState = ""


class Load(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Load of the worker process."""

    busy: int
    lag: float
    """Maximum delay of its event loop since the last report, in seconds."""
    jobs: list[BusySlot]
    """Busy slots, as many as fit in the message; jobs that wait for results come first."""
    waiting: int = 0
    """Number of busy slots that wait for results."""


class JobTimes(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Wait and run times of a task's jobs since the last report."""

    queue: str
    """Queue or partition."""
    task: str
    wait: list[int]
    """Packed `Times` (see `Times.packed`), like `run`."""
    run: list[int]


class SchedulesChanged(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """A schedule of the queue was created or changed at run time."""

    queue: str


Reported = (
    SchedulesChanged | Ready | Recycle | Load | JobTimes | RunnerStarted | RunnerExited | HardTimeout | HardTimeoutEnded
)


class ProcessReport(msgspec.Struct, frozen=True, array_like=True):
    """A message of a worker process, with its session."""

    session: str
    message: Reported


_from_worker_process = msgspec.json.Decoder(ProcessReport)

_LONGEST = 16_384
"""Maximum bytes of a report; a longer one is truncated and cannot be decoded."""
_FLUSH, _CLOSE = b"?", b"!"
"""Markers among the reports."""


class Reports:
    """The supervisor's end; calls `on_report(session, message)` on a separate thread."""

    def __init__(self, on_report: Callable[[str, Reported], None]) -> None:
        self._on_report = on_report
        self._inbox, self._outbox = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._lock = threading.Lock()
        self._open = True
        self._flushes: deque[threading.Event] = deque()
        """Calls of `flush` that wait, in the order of their markers in the socket."""
        self._thread = threading.Thread(target=self._main, name="lockwork-reports", daemon=True)

    @property
    def descriptor(self) -> int:
        """File descriptor that a child inherits for its reports."""
        return self._outbox.fileno()

    def start(self) -> None:
        """Start listening."""
        self._thread.start()

    def flush(self) -> None:
        """Wait until all reports that were sent before this call are handled; do nothing after `close`."""
        handled = threading.Event()
        with self._lock:
            if not self._open:
                return
            self._flushes.append(handled)
            self._outbox.send(_FLUSH)
        handled.wait()

    def close(self) -> None:
        """Stop listening."""
        with self._lock:
            self._open = False
        if self._thread.is_alive():
            self._outbox.send(_CLOSE)
            self._thread.join()
        self._inbox.close()
        self._outbox.close()

    def _main(self) -> None:
        while (received := self._inbox.recv(_LONGEST)) != _CLOSE:
            if received == _FLUSH:
                self._flushes.popleft().set()
                continue
            try:
                report = _from_worker_process.decode(received)
                self._on_report(report.session, report.message)
            except Exception:
                # without a reader, worker processes would block when the socket is full
                log.exception("a report of a worker process could not be handled: %r", received)


class Reporter(Protocol):
    """Sends reports of a worker process."""

    def report(self, message: Reported, /) -> None:
        """Report a message."""


class SocketReporter:
    """A child's end of Reports."""

    def __init__(self, descriptor: int, session: str) -> None:
        # programs that jobs start must not inherit it
        os.set_inheritable(descriptor, False)
        self._socket = socket.socket(fileno=descriptor)
        self._session = session

    def report(self, message: Reported) -> None:
        """Send a message to the supervisor; do nothing if it is gone."""
        try:
            self._socket.send(msgspec.json.encode(ProcessReport(self._session, message)))
        except OSError:
            return

    def close(self) -> None:
        """Stop reporting."""
        self._socket.close()
