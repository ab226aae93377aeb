"""A pool of runner processes for the jobs of `executor="process"` tasks; it belongs to one worker child.

The pool starts runners on first use, and reuses them. A crash in a runner affects only one job.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import deque
from functools import partial
from pathlib import Path
from typing import NamedTuple

from lockwork import words
from lockwork.errors import WorkerDied
from lockwork.jobs.current import JobContext
from lockwork.logs import Log
from lockwork.protocol.queue.leases import Leased, Outcome
from lockwork.runtime.clock import now
from lockwork.worker.execution import runner_handle
from lockwork.worker.execution.runner_handle import NotBegun, RunnerHandle, SpawnSpec
from lockwork.worker.ipc.messages import MAX_MEMORY, Reporter, RunnerExited, RunnerStarted
from lockwork.worker.ipc.runner_messages import Note, Overran
from lockwork.worker.settings import ProcessSettings

log: Log = Log("lockwork.worker")

_TRIES = 3
"""Number of runners that may die before they start a job; after that, the job counts as the cause."""
_PAUSE_MS = 1000
"""Snooze of a job in ms if no runner can be started for it."""
_END = 5.0


class NotStarted(Exception):
    """No process could be started for a job, which has not begun."""


class RunnerPool:
    """A pool of at most `options.runners` processes."""

    def __init__(self, settings: ProcessSettings, reporter: Reporter) -> None:
        options = settings.options
        loop = "uvloop" if type(asyncio.get_running_loop()).__module__ == "uvloop" else "asyncio"
        # jobs may change the working directory, and a runner could then not import the app
        self._spec = SpawnSpec(settings, loop, str(Path.cwd()))
        self._most = options.runners or min(options.concurrency, _processors())
        self._max_memory = options.max_memory
        self._reporter = reporter
        self._runners: set[RunnerHandle] = set()
        self._idle: list[RunnerHandle] = []
        self._waiting: deque[asyncio.Future[RunnerHandle]] = deque()
        self._starting: set[asyncio.Task[None]] = set()
        self._pending_starts = 0
        """Number of starting runners that have not been free yet."""
        self._closed = False
        self._empty = asyncio.Event()

    async def run(self, job: Leased, context: JobContext, hard_timeout: float | None) -> Outcome:
        """Run a job in a runner and return its outcome; raises WorkerDied or JobTimeout."""
        for _ in range(_TRIES):
            context.runner = "waits"
            try:
                while (runner := await self._take()).over:
                    pass  # the runner died while idle, or before it accepted the job: the job is not the cause
            except NotStarted as error:
                log.error("job %s waits: no process could be started for it: %s", job.id, error)
                return Outcome(job.id, job.token, "z", b"", _PAUSE_MS)
            context.runner = "runs"
            context.thread = runner_task = runner.run(context.queue, job, partial(_note, context))
            with contextlib.suppress(NotBegun):
                return await runner_task.outcome(hard_timeout)
        raise WorkerDied("the runner processes died before they started it")

    async def close(self) -> None:
        """End all runners, even busy ones, and wait until they are gone."""
        self._closed = True
        for starting in self._starting:
            starting.cancel()
        await asyncio.gather(*self._starting, return_exceptions=True)
        for runner in self._runners:
            if runner.begun and not runner.at_work:
                runner.leave()
            else:
                runner.kill()
        await self._gone()
        for runner in self._runners:
            runner.kill()
        await self._gone()

    def on_free(self, runner: RunnerHandle) -> None:
        """Give the runner to the first waiting job."""
        if runner.limit is None:
            self._pending_starts -= 1
            runner.limit = self._limit(runner)
        elif self._over_memory(runner):
            runner.reason = MAX_MEMORY
            self._runners.discard(runner)
            runner.leave()
            self._fill()
            return
        self._offer(runner)

    def on_gone(self, runner: RunnerHandle) -> None:
        """Start another runner if jobs wait."""
        self._reporter.report(RunnerExited(runner.pid, "" if self._closed else runner.reason))
        self._runners.discard(runner)
        if not self._runners:
            self._empty.set()
        if runner in self._idle:
            self._idle.remove(runner)
        if not runner.begun:
            self._not_started(runner.fate)
        self._fill()

    async def _gone(self) -> None:
        self._empty.clear()
        if self._runners:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_END):
                    await self._empty.wait()

    async def _take(self) -> RunnerHandle:
        if self._idle:
            return self._idle.pop()
        mine: asyncio.Future[RunnerHandle] = asyncio.get_running_loop().create_future()
        self._waiting.append(mine)
        self._fill()
        try:
            return await mine
        except asyncio.CancelledError:
            if mine.done() and not mine.cancelled() and mine.exception() is None:
                self._offer(mine.result())
            raise

    def _offer(self, runner: RunnerHandle) -> None:
        while self._waiting:
            waiting = self._waiting.popleft()
            if not waiting.done():
                waiting.set_result(runner)
                return
        self._idle.append(runner)

    def _fill(self) -> None:
        """Start runners for waiting jobs."""
        demand = sum(not waiting.done() for waiting in self._waiting)
        while (
            not self._closed and self._pending_starts < demand and len(self._runners) + len(self._starting) < self._most
        ):
            self._pending_starts += 1
            task = asyncio.create_task(self._start(), name="lockwork-start-runner")
            self._starting.add(task)
            task.add_done_callback(self._started)

    def _started(self, task: asyncio.Task[None]) -> None:
        self._starting.discard(task)
        self._fill()  # after a failed start, no other event would retry for the waiting jobs

    async def _start(self) -> None:
        try:
            runner = await runner_handle.start(self._spec, self)
        except (OSError, RuntimeError) as error:  # no process, or no thread to watch it
            self._not_started(str(error))
            return
        self._runners.add(runner)
        self._reporter.report(RunnerStarted(runner.pid))
        log.info("runner process %d started", runner.pid)

    def _not_started(self, why: str) -> None:
        self._pending_starts -= 1
        while self._waiting:
            waiting = self._waiting.popleft()
            if not waiting.done():
                waiting.set_exception(NotStarted(why))
                return

    def _limit(self, runner: RunnerHandle) -> int:
        """Return the memory limit of a runner, at least a fifth above its current usage; 0 without a limit."""
        size = runner.memory() if self._max_memory is not None else None
        return 0 if self._max_memory is None or size is None else max(self._max_memory, size + size // 5)

    def _over_memory(self, runner: RunnerHandle) -> bool:
        size = runner.memory() if runner.limit else None
        if size is None or runner.limit is None or size <= runner.limit:
            return False
        log.info("runner process %d is replaced: it takes %s", runner.pid, words.size(size))
        return True


class _RunnerWait(NamedTuple):
    """A wait for a result in a runner."""

    id: str
    queue: str
    since: float


def _note(context: JobContext, note: Note) -> None:
    """Record a runner's note about its job."""
    if isinstance(note, Overran):
        context.note_overrun()
    else:
        context.waits = [_RunnerWait(each.id, each.queue, now() - each.seconds) for each in note.waits]


def _processors() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1
