"""The worker processes of a supervisor: starts those that are missing, and replaces those that died or are used up."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable

from lockwork.errors import ConfigError, LockworkError
from lockwork.logs import Log
from lockwork.runtime.clock import now
from lockwork.worker.environment import shown
from lockwork.worker.ipc.messages import DIED, MAX_MEMORY, Load, RaiseUrgency, RunnerExited, RunnerStarted, Urgency
from lockwork.worker.settings import ProcessSettings, WorkerOptions
from lockwork.worker.supervisor import child_process
from lockwork.worker.supervisor.child_process import WorkerProcess
from lockwork.worker.supervisor.heartbeat import Heartbeat

log: Log = Log("lockwork.worker")

_QUICK = 2.0
"""Seconds within which a child that ends is taken as failing to start."""
_SLOWEST = 5.0
_FIRST_PATIENCE, _PATIENCE = 5.0, 1.0
"""Seconds to try to reach the server at the start, and later, when the supervisor has other things to look after."""


class NoProcess(LockworkError):
    """A worker process could not be started."""


class WorkerProcesses:
    """Keeps `wanted` children running; `on_exit` is called with one that ended, on a thread of its own.

    `again(seconds)` requests another `fill` after that time.
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
        """Whether children are started; not any more once the worker is quiet or stops."""
        self.failed_starts: int = 0
        """Children that ended before they were ready, one after the other."""
        self.replaced: Counter[str] = Counter()
        """How many children were replaced, by reason."""
        self.runners_replaced: Counter[str] = Counter()
        """How many of their runners were replaced, by reason."""
        self._options = options
        self._loop = loop
        self._descriptor = descriptor
        self._heartbeat = heartbeat
        self._on_exit = on_exit
        self._again = again
        self._failures = 0

    @property
    def working(self) -> int:
        """How many children fetch jobs."""
        return sum(child.ready and not child.retiring for child in list(self.children.values()))

    def memory(self) -> list[list[int]]:
        """For each child, its resident memory in bytes and that of its runners, where known."""
        found = [(child.memory(), child) for child in list(self.children.values())]
        return [[size, *child.memory_of_runners()] for size, child in found if size is not None]

    def loads(self) -> list[Load]:
        """How busy the children are, as far as they have reported."""
        return [child.load for child in list(self.children.values()) if child.load is not None]

    def on_load(self, session: str, load: Load) -> None:
        """Receive a child's report about its slots."""
        child = self.children.get(session)
        if child is not None:
            child.load = load

    def resume(self) -> None:
        """Start children again in place of those that are quiet, which finish their jobs and end."""
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

    def raise_to(self, urgency: Urgency) -> None:
        """Raise the urgency of all of them."""
        for child in self.children.values():
            child.send(RaiseUrgency(urgency))

    def kill(self) -> None:
        """End all of them at once."""
        for child in list(self.children.values()):
            child.kill()

    def fill(self, *, first: bool = False) -> None:
        """Start missing children; a failure raises LockworkError the `first` time, and is retried later."""
        while self.open and sum(child.active for child in self.children.values()) < self.wanted:
            try:
                self._start(first=first)
            except LockworkError as error:
                if first:
                    raise
                log.error("a worker process could not be started: %s", error)
                self._again(1.0)
                return

    def remove(self, child: WorkerProcess) -> None:
        """Remove a child that has ended."""
        del self.children[child.session]
        child.close_input()

    def replace(self, child: WorkerProcess, reason: str = DIED) -> None:
        """Start another child in place of one that ended, after a pause if it ended early."""
        self.replaced[reason] += 1
        self.failed_starts += not child.ready
        quick = reason == DIED and now() - child.started < _QUICK
        self._failures = self._failures + 1 if quick else 0
        if self._failures:
            self._again(min(_SLOWEST, 0.1 * 2.0 ** min(self._failures, 10)))
        else:
            self.fill()

    def on_ready(self, child: WorkerProcess, *, first: bool) -> None:
        """Note that a child fetches jobs; raises ConfigError if one of the `first` exceeds --max-memory at once."""
        child.ready = True
        self.failed_starts = 0
        self._measure(child, first=first)
        self._retire_replaced()

    def replace_soon(self, session: str, reason: str, text: str) -> None:
        """Start a successor of a child, which works until the successor is ready."""
        child = self.children.get(session)
        if child is None or not child.active or not self.open or self._options.once:
            return  # a successor would run another job, and one was wanted
        child.replace_reason = reason
        self.replaced[reason] += 1
        log.info("worker process %d is replaced: %s", child.pid, text)
        self.fill()

    def weigh(self) -> None:
        """Replace those that take too much memory."""
        for child in list(self.children.values()):
            size = child.memory() if child.active and child.limit is not None else None
            if size is not None and child.limit is not None and size > child.limit:
                self.replace_soon(child.session, MAX_MEMORY, f"it takes {shown(size)}")

    def _retire_replaced(self) -> None:
        """End children that are to be replaced, as far as their successors are ready."""
        ready = sum(child.ready and child.active for child in self.children.values())
        replace_reason = [child for child in self.children.values() if child.replace_reason and not child.retiring]
        for child in replace_reason[: max(0, ready + len(replace_reason) - self.wanted)]:
            child.retiring = True
            child.send(RaiseUrgency(Urgency.RETIRE))

    def _measure(self, child: WorkerProcess, *, first: bool) -> None:
        """Set the memory limit of a new child: at least a fifth above what it takes at its start."""
        limit, size = self._options.max_memory, child.memory()
        if limit is None or size is None:
            return
        if size >= limit:
            text = f"--max-memory {shown(limit)} is too low: a new worker process already takes {shown(size)}"
            if first:
                raise ConfigError(text)
            log.error("%s", text)
        child.limit = max(limit, size + size // 5)

    def _start(self, *, first: bool) -> None:
        # a worker that begins reports what is wrong, and one that ends with its work must not end before all is done
        whole = first or self._options.ends
        try:
            child = child_process.start(self._loop, self._descriptor)
        except OSError as error:  # no memory, no process, no descriptor: there may be one in a moment
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
        child.send(ProcessSettings(self._options, child.session, child.without))
        log.info("worker process %d works on %s", child.pid, ", ".join(self._options.queues))
        if refused:
            why = next(iter(refused.values()))
            log.error("worker process %d works without %s for now: %s", child.pid, ", ".join(refused), why)

    def _watch(self, child: WorkerProcess) -> None:
        child.process.wait()
        self._on_exit(child)
