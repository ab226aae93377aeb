"""The worker processes of a supervisor: starts missing ones, and replaces dead or worn-out ones."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable

import msgspec

from lockwork import words
from lockwork.errors import ConfigError, LockworkError
from lockwork.logs import Log
from lockwork.runtime.clock import now
from lockwork.worker.environment import resident
from lockwork.worker.ipc.messages import (
    DIED,
    MAX_MEMORY,
    Load,
    RaiseUrgency,
    RunnerExited,
    RunnerStarted,
    SessionLost,
    Urgency,
)
from lockwork.worker.settings import ProcessSettings, WorkerOptions
from lockwork.worker.supervisor import child_process
from lockwork.worker.supervisor.child_process import WorkerProcess
from lockwork.worker.supervisor.heartbeat import Heartbeat

log: Log = Log("lockwork.worker")

_QUICK = 2.0
"""Seconds after its start within which the end of a child counts as a failed start."""
_SLOWEST = 5.0
_MOST_ISOLATION = 8
"""Maximum number of isolation processes, unless the worker has more regular processes."""
_FIRST_PATIENCE, _PATIENCE = 5.0, 1.0
"""Seconds to try to reach the server at the start, and later, when other work waits for the supervisor."""


class NoProcess(LockworkError):
    """A worker process could not be started."""


class WorkerProcesses:
    """Keeps `wanted` children running; calls `on_exit` with each ended child, on a separate thread.

    Calls `again(seconds)` to request another `fill` after that time.
    """

    def __init__(
        self,
        options: WorkerOptions,
        loop: str,
        descriptor: int,
        heartbeat: Heartbeat,
        *,
        on_exit: Callable[[WorkerProcess], None],
        again: Callable[[float], None],
    ) -> None:
        self.children: dict[str, WorkerProcess] = {}
        self.wanted: int = options.processes
        self.open: bool = True
        """False once the worker is quiet or stops; then no children are started."""
        self.failed_starts: int = 0
        """Number of consecutive children that ended before they were ready."""
        self.replaced: Counter[str] = Counter()
        """Number of replaced children, by reason."""
        self.runners_replaced: Counter[str] = Counter()
        """Number of replaced runners, by reason."""
        self._options = options
        self._loop = loop
        self._descriptor = descriptor
        self._heartbeat = heartbeat
        self._on_exit = on_exit
        self._again = again
        self._failures = 0
        self._isolation_paused_until = 0.0
        """Time of the next try after an isolation process failed to start."""

    @property
    def working(self) -> int:
        """Number of children that fetch jobs, without isolation processes."""
        return sum(child.ready and not child.retiring for child in self._usual())

    @property
    def isolating(self) -> int:
        """Number of isolation processes; each runs one suspect at a time."""
        return sum(child.isolates for child in list(self.children.values()))

    def _usual(self) -> list[WorkerProcess]:
        return [child for child in list(self.children.values()) if not child.isolates]

    def memory(self) -> list[list[int]]:
        """Resident memory in bytes of each child and of its runners, where the system reports it."""
        sizes = [(child.memory(), child) for child in list(self.children.values())]
        return [[size, *child.memory_of_runners()] for size, child in sizes if size is not None]

    def whole_memory(self) -> int:
        """Resident memory in bytes of this supervisor, its children and their runners, where the system reports it."""
        return (resident(os.getpid()) or 0) + sum(map(sum, self.memory()))

    def loads(self) -> list[Load]:
        """Loads of the children that have reported one."""
        return [child.load for child in list(self.children.values()) if child.load is not None]

    def on_load(self, session: str, load: Load) -> None:
        """Receive a child's report about its slots."""
        child = self.children.get(session)
        if child is not None:
            child.load = load

    def resume(self) -> None:
        """Start new children in place of quiet ones, which finish their jobs and end."""
        self.open = True
        for child in self.children.values():
            child.retiring = True
            child.send(RaiseUrgency(Urgency.RETIRE))
        self.fill()

    def on_runner_report(self, session: str, message: RunnerStarted | RunnerExited) -> None:
        """Receive a child's report about a runner."""
        child = self.children.get(session)
        reason = "" if child is None else child.on_runner_report(message)
        if reason:
            self.runners_replaced[reason] += 1

    def on_session_lost(self, session: str, queue: str) -> None:
        """Tell a child to rejoin a queue that no longer has its session."""
        if child := self.children.get(session):
            child.send(SessionLost(queue))

    def raise_to(self, urgency: Urgency) -> None:
        """Raise the urgency of all children."""
        for child in self.children.values():
            child.send(RaiseUrgency(urgency))

    def kill(self) -> None:
        """Kill all children at once."""
        for child in list(self.children.values()):
            child.kill()

    def fill(self, *, first: bool = False) -> None:
        """Start missing children; a failure raises LockworkError the `first` time, and is retried later."""
        while self.open and sum(child.active for child in self._usual()) < self.wanted:
            try:
                self._start(first=first)
            except LockworkError as error:
                if first:
                    raise
                log.error("a worker process could not be started: %s", error)
                self._again(1.0)
                return

    def isolate(self, count: int, *, more: bool = False) -> None:
        """Start isolation processes for `count` suspects, at most as many as there are regular processes.

        more: the suspects have waited for a while, perhaps for long jobs; start one more process, up to a limit.
        """
        isolating = [child for child in self.children.values() if child.isolates and child.active]
        busy = sum(child.load is not None and child.load.busy > 0 for child in isolating)
        most = self._options.processes
        if more:
            most = max(most, min(len(isolating) + 1, _MOST_ISOLATION))
        for _ in range(len(isolating), min(most, count + busy)):
            if not self.open or now() < self._isolation_paused_until:
                return
            try:
                self._start(first=False, isolates=True)
            except LockworkError as error:
                log.error("an isolation process could not be started: %s", error)
                self._pause_isolation()
                return

    def replace_isolation(self, child: WorkerProcess, reason: str) -> None:
        """Replace an isolation process that died; wait first if it failed to start."""
        self.replaced[reason] += 1
        self.failed_starts += not child.ready
        if not child.ready and not self._options.burst:
            self._pause_isolation()
        self.isolate(1)

    def _pause_isolation(self) -> None:
        self._isolation_paused_until = now() + _SLOWEST

    def remove(self, child: WorkerProcess) -> None:
        """Remove a child that has ended."""
        del self.children[child.session]
        child.close_input()

    def replace(self, child: WorkerProcess, reason: str = DIED) -> None:
        """Replace an ended child; wait first if it failed to start."""
        self.replaced[reason] += 1
        self.failed_starts += not child.ready
        # a child that worked is replaced at once: its jobs run in isolation, so they cannot kill the successor
        failed = reason == DIED and not child.ready and now() - child.started < _QUICK
        self._failures = self._failures + 1 if failed else 0
        if self._failures:
            self._again(min(_SLOWEST, 0.1 * 2.0 ** min(self._failures, 10)))
        else:
            self.fill()

    def on_ready(self, child: WorkerProcess, *, first: bool) -> None:
        """Record that a child fetches jobs; raise ConfigError if one of the `first` already exceeds --max-memory."""
        child.ready = True
        self.failed_starts = 0
        self._measure(child, first=first)
        self._retire_replaced()

    def replace_soon(self, session: str, reason: str, text: str) -> None:
        """Start a successor of a child, which works until the successor is ready."""
        child = self.children.get(session)
        if child is None or not child.active or not self.open or self._options.once:
            return  # a successor would run a second job, and --once allows one
        if child.isolates:
            child.retiring = True  # the supervisor starts another while suspects remain
            child.send(RaiseUrgency(Urgency.RETIRE))
            return
        child.replace_reason = reason
        self.replaced[reason] += 1
        log.info("worker process %d is replaced: %s", child.pid, text)
        self.fill()

    def weigh(self) -> None:
        """Replace children that exceed their memory limit."""
        for child in list(self.children.values()):
            size = child.memory() if child.active and child.limit is not None else None
            if size is not None and child.limit is not None and size > child.limit:
                self.replace_soon(child.session, MAX_MEMORY, f"it takes {words.size(size)}")

    def _retire_replaced(self) -> None:
        """End the replaced children whose successors are ready."""
        ready = sum(child.ready and child.active for child in self._usual())
        replace_reason = [child for child in self.children.values() if child.replace_reason and not child.retiring]
        for child in replace_reason[: max(0, ready + len(replace_reason) - self.wanted)]:
            child.retiring = True
            child.send(RaiseUrgency(Urgency.RETIRE))

    def _measure(self, child: WorkerProcess, *, first: bool) -> None:
        """Set the memory limit of a new child: at least a fifth above its usage at the start."""
        limit, size = self._options.max_memory, child.memory()
        if limit is None or size is None:
            return
        if size >= limit:
            text = f"--max-memory {words.size(limit)} is too low: a new worker process already takes {words.size(size)}"
            if first:
                raise ConfigError(text)
            log.error("%s", text)
        child.limit = max(limit, size + size // 5)

    def _start(self, *, first: bool, isolates: bool = False) -> None:
        # at startup, errors must be reported; a worker that ends with its work must not end before all queues are done
        whole = first or self._options.ends
        try:
            child = child_process.start(self._loop, self._descriptor)
            child.isolates = isolates
        except OSError as error:  # no memory, process, or descriptor now: retry later
            raise NoProcess(f"the system has no process for it: {error}") from error
        watch = threading.Thread(target=self._watch, args=(child,), name=f"lockwork-watch-{child.pid}", daemon=True)
        try:
            refused = self._heartbeat.join(child.session, _FIRST_PATIENCE if first else _PATIENCE, whole=whole)
            watch.start()
        except BaseException as error:
            child.process.kill()
            child.process.wait()
            child.close_input()
            self._heartbeat.forget(child.session)
            if type(error) is RuntimeError:
                raise NoProcess(f"the system has no thread to watch it: {error}") from error
            raise
        self.children[child.session] = child
        child.without = list(refused)
        options = self._options
        if isolates:
            options = msgspec.structs.replace(options, concurrency=1, runners=1, max_jobs=None)
        child.send(ProcessSettings(options, child.session, child.without, isolates))
        does = "runs suspects, each alone," if isolates else "works"
        log.info("worker process %d %s on %s", child.pid, does, ", ".join(options.queues))
        if refused:
            why = next(iter(refused.values()))
            log.error("worker process %d works without %s for now: %s", child.pid, ", ".join(refused), why)

    def _watch(self, child: WorkerProcess) -> None:
        child.process.wait()
        self._on_exit(child)
