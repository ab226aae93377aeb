"""One runner process, from the view of its worker process."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from lockwork.errors import WorkerDied
from lockwork.protocol.queue.leases import Leased, Outcome
from lockwork.worker.environment import resident
from lockwork.worker.execution.threads import killed_after
from lockwork.worker.ipc import runner_messages as messages
from lockwork.worker.ipc.messages import DIED, TOO_LONG, fate
from lockwork.worker.ipc.runner_messages import Begun, Free, Note, Overran, RunnerJob, RunnerWaits, Stop
from lockwork.worker.settings import ProcessSettings

_REST = 1.0
"""Seconds to read the last messages of an ended runner: a program of its job may keep the connection open."""


class NotBegun(Exception):
    """The process died before it accepted the job."""


class SpawnSpec(Struct, frozen=True):
    """Start parameters of a runner: the settings of its worker process, the event loop, and the working directory."""

    settings: ProcessSettings
    loop: str
    folder: str


class RunnerTask:
    """One job in a runner. The runner may start the next job before the caller of this one continues."""

    def __init__(self, runner: RunnerHandle, job: Leased, on_note: Callable[[Note], None]) -> None:
        self._runner = runner
        self._job = job
        self.on_note: Callable[[Note], None] = on_note
        self.ended: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self.taken_up: bool = False

    def interrupt(self, _kind: type[BaseException]) -> None:
        """Cancel the job."""
        if not self.ended.done():
            self._runner.send(Stop(self._job.id))

    def end(self, outcome: Outcome) -> None:
        """Set the outcome, if it belongs to this delivery of this job."""
        if (outcome.id, outcome.token) == (self._job.id, self._job.token):
            self.ended.set_result(outcome)

    async def outcome(self, hard_timeout: float | None) -> Outcome:
        """Wait for the job's end and return its outcome; raises WorkerDied, NotBegun, or JobTimeout."""
        loop = asyncio.get_running_loop()
        timer = None if hard_timeout is None else loop.call_later(hard_timeout, self._too_long, hard_timeout)
        try:
            return await self.ended
        except asyncio.CancelledError:
            if self.ended.cancelled():
                self._runner.end("")  # no process will settle the rest of the job
            raise
        finally:
            if timer is not None:
                timer.cancel()

    def _too_long(self, hard_timeout: float) -> None:
        if not self.ended.done():
            self._runner.end(TOO_LONG, killed_after(hard_timeout))


class RunnerOwner(Protocol):
    """Receives the state changes of a runner."""

    def on_free(self, runner: RunnerHandle, /) -> None:
        """Use a runner that can accept a job."""

    def on_gone(self, runner: RunnerHandle, /) -> None:
        """Handle a runner that ended."""


class RunnerHandle:
    """Runs one job at a time in a separate process."""

    def __init__(self, process: subprocess.Popen[bytes], owner: RunnerOwner) -> None:
        self._process = process
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self._gate = threading.Lock()
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None
        self._burying: asyncio.Task[None] | None = None
        self._runner_task: RunnerTask | None = None
        self._idle = False
        self._released = False
        self._exit_unknown = False
        """True if another caller has reaped the process, so its exit status is unknown."""
        self._problem: Exception | None = None
        self.over: bool = False
        """True if its process has ended; `on_gone` is called later."""
        self.begun: bool = False
        """True if the runner was ever ready for a job."""
        self.limit: int | None = None
        """Memory limit in bytes; beyond it, the runner is replaced."""
        self.reason: str = DIED
        """Reason for its end; empty for an orderly end."""

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    @property
    def fate(self) -> str:
        """Exit status or signal that ended the process."""
        return "how is not known" if self._exit_unknown else fate(self._process.returncode)

    def memory(self) -> int | None:
        """Resident memory in bytes; None if the system does not report it."""
        return resident(self.pid)

    async def listen(self, connection: socket.socket) -> None:
        """Start reading the runner's messages."""
        reader, self._writer = await asyncio.open_connection(sock=connection)
        self._reading = asyncio.create_task(self._read(reader), name="lockwork-runner")
        threading.Thread(target=self._watch, name=f"lockwork-watch-{self.pid}", daemon=True).start()

    @property
    def at_work(self) -> bool:
        """True if a job is under way in the runner."""
        return self._runner_task is not None and not self._runner_task.ended.done()

    def run(self, queue: str, job: Leased, on_note: Callable[[Note], None] = lambda _: None) -> RunnerTask:
        """Run a job in the runner; `on_note` receives the runner's notes about the job while it runs."""
        self._idle = False
        self._runner_task = RunnerTask(self, job, on_note)
        self.send(RunnerJob(queue, job))
        return self._runner_task

    def end(self, reason: str, problem: Exception | None = None) -> None:
        """Kill the runner for a reason; its job fails with `problem`, or else with WorkerDied."""
        self.reason, self._problem = reason, problem
        self.kill()

    def kill(self) -> None:
        """Kill the runner and the programs that its job has started, at once."""
        with self._gate:
            if self._process.returncode is None:
                self._kill_group()

    def leave(self) -> None:
        """Close the connection: the runner then tears down its app, and exits."""
        self._released = True
        if self._writer is not None:
            self._writer.close()

    def send(self, message: ProcessSettings | RunnerJob | Stop) -> None:
        """Send a message to the runner, if the connection is open."""
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(messages.packed(message))

    async def _read(self, reader: asyncio.StreamReader) -> None:
        # a forked copy of a job may also write to this connection: ignore impossible messages
        while (message := await messages.read_answer(reader)) is not None:
            if isinstance(message, Free):
                if not self._idle and not self.at_work:
                    self.begun = self._idle = True
                    self._owner.on_free(self)
            elif self._runner_task is None or self._runner_task.ended.done():
                continue
            elif isinstance(message, Begun):
                self._runner_task.taken_up = True
            elif isinstance(message, Overran | RunnerWaits):
                self._runner_task.on_note(message)
            else:
                self._runner_task.end(message.outcome)
        if not self._released:
            self.kill()  # a job may have closed the connection: no more messages can arrive

    def _watch(self) -> None:
        # until the process is reaped, its process id cannot be reused
        if hasattr(os, "waitid"):
            try:
                os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
            except ChildProcessError:  # a job has reaped it, or ignores SIGCHLD, and its process id may be reused
                self._exit_unknown = True
            self.over = True
        with self._gate:
            if hasattr(os, "waitid") and not self._exit_unknown:
                self._kill_group()
            self._process.wait()
        self.over = True
        with contextlib.suppress(RuntimeError):  # the loop is closed, because this child ends, too
            self._loop.call_soon_threadsafe(self._exited)

    def _kill_group(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    def _exited(self) -> None:
        self._burying = asyncio.create_task(self._bury(), name="lockwork-bury")

    async def _bury(self) -> None:
        assert self._reading is not None
        await asyncio.wait([self._reading], timeout=_REST)
        self._reading.cancel()
        self.leave()
        self._owner.on_gone(self)
        if self._runner_task is not None and not self._runner_task.ended.done():
            died = WorkerDied if self._runner_task.taken_up else NotBegun
            self._runner_task.ended.set_exception(self._problem or died(f"the process that ran it died: {self.fate}"))


async def start(spec: SpawnSpec, owner: RunnerOwner) -> RunnerHandle:
    """Start a runner process; raises OSError if the system cannot create one."""
    ours, theirs = socket.socketpair()
    try:
        process = _spawn(spec, theirs.fileno())
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()
    runner = RunnerHandle(process, owner)
    try:
        await runner.listen(ours)
        # not as an argument: arguments have a size limit, and a worker may have thousands of queues
        runner.send(spec.settings)
    except BaseException:
        runner.leave()
        process.kill()
        process.wait()
        raise
    return runner


def _spawn(spec: SpawnSpec, descriptor: int) -> subprocess.Popen[bytes]:
    # on this thread: Linux kills the runner when the thread that started it ends
    return subprocess.Popen(  # noqa: S603 - our own command
        [sys.executable, "-m", "lockwork.worker.process.runner", spec.loop, str(descriptor), str(os.getpid())],
        stdin=subprocess.DEVNULL,
        pass_fds=[descriptor],
        process_group=0,
        cwd=spec.folder,
    )
