"""One runner process, as its worker child knows it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from dataclasses import dataclass
from typing import Protocol

from lockwork.errors import WorkerDied
from lockwork.protocol.queues.leases import Leased, Outcome
from lockwork.worker.environment import resident
from lockwork.worker.execution.threads import killed_after
from lockwork.worker.ipc import frames
from lockwork.worker.ipc.frames import Begun, Free, RunnerJob, Stop
from lockwork.worker.ipc.messages import DIED, TOO_LONG, fate
from lockwork.worker.settings import ProcessSettings

_REST = 1.0
"""Seconds in which what a runner said before it ended must have been read: a program of its job may hold the line."""


class NotBegun(Exception):
    """The process had died before it took up the job."""


@dataclass(frozen=True, slots=True)
class SpawnSpec:
    """What a runner is started with: the orders of its child, its event loop, and the folder."""

    orders: ProcessSettings
    loop: str
    folder: str


class RunnerTask:
    """One job in a runner, which may start the next before the caller of this one continues."""

    def __init__(self, host: RunnerHandle, job: Leased) -> None:
        self._host = host
        self._job = job
        self.ended: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self.taken_up: bool = False

    def interrupt(self, _kind: type[BaseException]) -> None:
        """Cancel the job."""
        if not self.ended.done():
            self._host.send(Stop(self._job.id))

    def end(self, outcome: Outcome) -> None:
        """Hear how it has ended, if that is about this delivery of this job."""
        if (outcome.id, outcome.token) == (self._job.id, self._job.token):
            self.ended.set_result(outcome)

    async def outcome(self, hard_timeout: float | None) -> Outcome:
        """Wait until it has ended and return what is to become of it; raises WorkerDied, NotBegun, or JobTimeout."""
        loop = asyncio.get_running_loop()
        timer = None if hard_timeout is None else loop.call_later(hard_timeout, self._too_long, hard_timeout)
        try:
            return await self.ended
        except asyncio.CancelledError:
            if self.ended.cancelled():
                self._host.end("")  # nobody will settle what the job still does
            raise
        finally:
            if timer is not None:
                timer.cancel()

    def _too_long(self, hard_timeout: float) -> None:
        if not self.ended.done():
            self._host.end(TOO_LONG, killed_after(hard_timeout))


class RunnerOwner(Protocol):
    """Whom a host tells what became of its process."""

    def on_free(self, host: RunnerHandle, /) -> None:
        """It can take a job."""

    def on_gone(self, host: RunnerHandle, /) -> None:
        """It has ended."""


class RunnerHandle:
    """Runs one job at a time in a process of its own."""

    def __init__(self, process: subprocess.Popen[bytes], owner: RunnerOwner) -> None:
        self._process = process
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self._gate = threading.Lock()
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None
        self._burying: asyncio.Task[None] | None = None
        self._errand: RunnerTask | None = None
        self._idle = False
        self._let_go = False
        self._unseen = False
        """Whether somebody else was told of its end."""
        self._problem: Exception | None = None
        self.over: bool = False
        """Whether its process has ended; `on_gone` comes later."""
        self.begun: bool = False
        """Whether it ever came to take a job."""
        self.limit: int | None = None
        """Bytes of memory beyond which it is worn."""
        self.reason: str = DIED
        """Why it will have ended, when it has; empty when that is as it should be."""

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def fate(self) -> str:
        """How it ended."""
        return "how is not known" if self._unseen else fate(self._process.returncode)

    def memory(self) -> int | None:
        """Bytes that it has in memory, None when that cannot be told."""
        return resident(self.pid)

    async def listen(self, connection: socket.socket) -> None:
        """Begin to hear what it says."""
        reader, self._writer = await asyncio.open_connection(sock=connection)
        self._reading = asyncio.create_task(self._read(reader), name="lockwork-runner")
        threading.Thread(target=self._watch, name=f"lockwork-watch-{self.pid}", daemon=True).start()

    @property
    def at_work(self) -> bool:
        """Whether a job is under way in it."""
        return self._errand is not None and not self._errand.ended.done()

    def run(self, queue: str, job: Leased) -> RunnerTask:
        """Let it run a job."""
        self._idle = False
        self._errand = RunnerTask(self, job)
        self.send(RunnerJob(queue, job))
        return self._errand

    def end(self, reason: str, problem: Exception | None = None) -> None:
        """Kill it for a reason; `problem` is what its job fails with, unless it is WorkerDied."""
        self.reason, self._problem = reason, problem
        self.kill()

    def kill(self) -> None:
        """End it at once, and the programs that its job has started."""
        with self._gate:
            if self._process.returncode is None:
                self._kill_group()

    def leave(self) -> None:
        """Let it go: it ends once nobody talks to it, and takes down what it has set up."""
        self._let_go = True
        if self._writer is not None:
            self._writer.close()

    def send(self, message: ProcessSettings | RunnerJob | Stop) -> None:
        """Tell it something, if it can still be told."""
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(frames.packed(message))

    async def _read(self, reader: asyncio.StreamReader) -> None:
        # a job may have forked a copy that speaks on this line, too: what cannot be true is passed over
        while (message := await frames.answer(reader)) is not None:
            if isinstance(message, Free):
                if not self._idle and not self.at_work:
                    self.begun = self._idle = True
                    self._owner.on_free(self)
            elif self._errand is None or self._errand.ended.done():
                continue
            elif isinstance(message, Begun):
                self._errand.taken_up = True
            else:
                self._errand.end(message.outcome)
        if not self._let_go:
            self.kill()  # a job may have closed the line: nothing more can be heard of it

    def _watch(self) -> None:
        # as long as it is not waited for, nobody else gets its number
        if hasattr(os, "waitid"):
            try:
                os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
            except ChildProcessError:  # a job has waited for it, or ignores SIGCHLD, and the number may be another's
                self._unseen = True
            self.over = True
        with self._gate:
            if hasattr(os, "waitid") and not self._unseen:
                self._kill_group()
            self._process.wait()
        self.over = True
        with contextlib.suppress(RuntimeError):  # the loop is closed: this child ends, too
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
        if self._errand is not None and not self._errand.ended.done():
            died = WorkerDied if self._errand.taken_up else NotBegun
            self._errand.ended.set_exception(self._problem or died(f"the process that ran it died: {self.fate}"))


async def start(place: SpawnSpec, owner: RunnerOwner) -> RunnerHandle:
    """Start a runner process; raises OSError when the system has none to give."""
    ours, theirs = socket.socketpair()
    try:
        process = _spawn(place, theirs.fileno())
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()
    host = RunnerHandle(process, owner)
    try:
        await host.listen(ours)
        host.send(place.orders)  # not as an argument: these have a limit, and a worker may have thousands of queues
    except BaseException:
        host.leave()
        process.kill()
        process.wait()
        raise
    return host


def _spawn(place: SpawnSpec, descriptor: int) -> subprocess.Popen[bytes]:
    # by this thread: Linux lets the runner die with the thread that started it
    return subprocess.Popen(  # noqa: S603 - our own command
        [sys.executable, "-m", "lockwork.worker.process.runner", place.loop, str(descriptor), str(os.getpid())],
        stdin=subprocess.DEVNULL,
        pass_fds=[descriptor],
        process_group=0,
        cwd=place.folder,
    )
