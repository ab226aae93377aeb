"""The supervisor: starts the children, replaces those that died or are worn, keeps their leases, and ends them."""

from __future__ import annotations

import logging
import signal
import threading
from collections import Counter
from types import FrameType
from typing import Literal

import msgspec

from lockwork.app import Lockwork
from lockwork.errors import ConfigError, LockworkError
from lockwork.protocol.dead import Bounds
from lockwork.protocol.keys import QueueKeys
from lockwork.runtime.clock import now
from lockwork.worker import loops, process
from lockwork.worker.bounds import Keeper
from lockwork.worker.child import FAILED, OK
from lockwork.worker.events import Events
from lockwork.worker.heartbeat import Heartbeat
from lockwork.worker.memory import shown
from lockwork.worker.notify import Notify
from lockwork.worker.options import QUIET, READY, RETIRE, STOP, WORN, ChildOrders, WorkerOptions
from lockwork.worker.process import Child
from lockwork.worker.reports import Reports
from lockwork.worker.scheduler import Scheduler

log: logging.Logger = logging.getLogger("lockwork.worker")

_QUICK = 2.0
"""Seconds within which a child that ends is taken as failing to start."""
_SLOWEST = 5.0
_TRIES = 3
"""Children of a worker that is to end by itself that may fail to start, one after the other."""
_HURRY = 3.0
"""Seconds that children have, beyond their grace, before they are killed."""
_FIRST_PATIENCE, _PATIENCE = 5.0, 1.0
"""Seconds to try to reach the server at the start, and later, when the supervisor has other things to look after."""
_PULSE = 1.0

DIED, MAX_JOBS, MAX_MEMORY = REASONS = ("died", "max-jobs", "max-memory")
"""Why a child is replaced."""

_Event = (
    tuple[Literal["exit"], Child]
    | tuple[Literal["signal"], int]
    | tuple[Literal["ready", "worn"], str]
    | tuple[Literal["start", "leave", "kill"], None]
)


class Supervisor:
    """Runs until told to stop, or until its children have done their work; `run` returns the exit status."""

    def __init__(self, app: Lockwork, options: WorkerOptions, *, loop: str | None = None) -> None:
        self._options = options
        self._loop = loops.chosen(loop)
        self._events: Events[_Event] = Events()
        self._children: dict[str, Child] = {}
        self._wanted = options.processes
        self._stopping = 0
        self._quiet = False
        self._begun = False
        self._failures = 0
        self._stillborn = 0
        """Children that ended before they were ready, one after the other."""
        self._lingering: list[Child] = []
        """Children that have ended, and whose sessions could not be ended yet."""
        self._notify = Notify()
        self._next_sign = now()
        self.replaced: Counter[str] = Counter()
        """How many children were replaced, by reason."""
        queues = {name: QueueKeys(app.config.prefix, name) for name in options.queues}
        window_ms = int(app.config.result_ttl * 1000)
        bounds = Bounds(int(app.config.dead_ttl * 1000), app.config.dead_limit)
        keeper = Keeper(app.runtime, bounds)
        self.heartbeat: Heartbeat = Heartbeat(app.runtime, queues, options.lease, window_ms, self._session_over, keeper)
        self._scheduler = Scheduler(app.runtime, queues, app.plans)
        self._reports = Reports(self._reported)

    @property
    def alive(self) -> bool:
        """Whether the supervisor still turns, server or no server."""
        return now() - self.heartbeat.turned < max(self._options.lease, 10.0)

    @property
    def trouble(self) -> str:
        """Why no jobs are taken, or that fewer are; empty when all is well."""
        if self._stopping:
            return "it is stopping"
        if self._quiet:
            return "it was told to fetch nothing more"
        silence = now() - self.heartbeat.last
        if silence >= self._options.lease:
            return f"the server has not answered for {silence:.0f} s"
        working = sum(child.ready and not child.retiring for child in list(self._children.values()))
        if working < self._wanted:
            return f"{working} of {self._wanted} processes work"
        return ""

    def memory(self) -> list[int]:
        """Bytes that each child has in memory, as far as that can be told."""
        return [size for child in list(self._children.values()) if (size := child.memory()) is not None]

    def run(self) -> int:
        """Work until SIGTERM or SIGINT; raises a LockworkError when it cannot begin."""
        with self._events:
            return self._run()

    def _run(self) -> int:
        numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)
        previous = {number: signal.signal(number, self._on_signal) for number in numbers}
        self._reports.start()
        status = OK
        try:
            self._start_missing(first=True)
            self.heartbeat.start()
            self._scheduler.start()
            while self._children or (self._wanted and not self._stopping):
                self._handle(self._events.next(self._pulse()))
                self._look_after()
                if self._options.ends and self._stillborn >= _TRIES:
                    log.error("worker processes cannot be started: this worker ends without having done its work")
                    status = FAILED
                    break
            log.info("stopped")
            return status
        finally:
            self._kill_all()
            self._scheduler.stop()
            self.heartbeat.stop()
            self._reports.close()
            for child in self._children.values():  # after an error
                child.process.wait()
                child.let_go()
                self._give_back(child)
            for number, handler in previous.items():
                signal.signal(number, handler)

    # -- what happens -----------------------------------------------------------------------------------------------

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        self._events.post(("signal", number))

    def _reported(self, session: str, text: str) -> None:
        if text == READY:
            self._events.post(("ready", session))
        elif text == WORN:
            self._events.post(("worn", session))

    def _session_over(self, session: str) -> None:
        # on the heartbeat's thread: its jobs run elsewhere now, so the process that still runs them must end
        child = self._children.get(session)
        if child is not None:
            log.error("the server gave up worker process %d: it is killed and replaced", child.pid)
            child.process.kill()

    def _handle(self, event: _Event | None) -> None:
        if event is None:
            return
        if event[0] == "exit":
            self._on_exit(event[1])
        elif event[0] == "signal":
            if event[1] == signal.SIGUSR1:
                self._on_quiet()
            else:
                self._on_stop()
        elif event[0] == "ready":
            self._on_ready(event[1])
        elif event[0] == "worn":
            self._wear_out(self._children.get(event[1]), MAX_JOBS, f"{self._options.max_jobs} jobs done")
        elif event[0] == "start":
            self._start_missing()
        elif event[0] == "leave":
            self._give_back_lingering()
        else:
            log.warning("worker processes that did not end in time are killed")
            self._kill_all()

    def _on_stop(self) -> None:
        self._stopping += 1
        if self._stopping == 1:
            log.info("stopping: running jobs have %g s to end (a second signal ends them at once)", self._options.grace)
            self._notify.tell(STOPPING=1, STATUS="running jobs come to their end")
            for child in self._children.values():
                child.tell(STOP)
            self._later(self._options.grace + _HURRY, ("kill", None))
        else:
            log.info("stopping at once: running jobs are given back")
            self._kill_all()

    def _on_quiet(self) -> None:
        if not self._quiet and not self._stopping:
            self._quiet = True
            log.info("quiet: no more jobs are fetched; running ones go on")
            self._notify.tell(STATUS="quiet: no more jobs are fetched")
            for child in self._children.values():
                child.tell(QUIET)

    def _on_ready(self, session: str) -> None:
        child = self._children.get(session)
        if child is None:
            return
        child.ready = True
        self._stillborn = 0
        self._measure(child)
        self._retire_worn()
        if not self._begun and not self.trouble:
            self._begun = True
            self._notify.tell(READY=1, STATUS=f"{self._wanted} processes on {', '.join(self._options.queues)}")

    def _on_exit(self, child: Child) -> None:
        del self._children[child.session]
        child.let_go()
        given_back = self._give_back(child)
        if child.retiring or self._stopping:
            return
        if child.orderly and self._options.ends:
            self._wanted -= 1
            return
        log.error("worker process %d ended (%s): %d jobs given back", child.pid, child.fate, given_back)
        self.replaced[DIED] += 1
        self._stillborn += not child.ready
        quick = now() - child.started < _QUICK
        self._failures = self._failures + 1 if quick else 0
        if self._failures:
            self._later(min(_SLOWEST, 0.1 * 2.0**self._failures), ("start", None))
        else:
            self._start_missing()

    def _give_back(self, child: Child) -> int:
        # one that was not there a moment ago is asked no more by a supervisor that has to go
        if self._lingering and (self._stopping or not self._begun):
            return 0
        try:
            return self.heartbeat.leave(child.session, _PATIENCE, counted=not child.orderly)
        except LockworkError as error:
            # should we not live to do it, its lease runs out, and then any worker gives its jobs back
            log.error("the jobs of worker process %d could not be given back yet: %s", child.pid, error)
            self._lingering.append(child)
            self._later(_PATIENCE, ("leave", None))
            return 0

    def _give_back_lingering(self) -> None:
        if self._lingering and not self._stopping:
            child = self._lingering.pop()
            given_back = self._give_back(child)
            if child not in self._lingering:
                log.info("the session of worker process %d has ended: %d jobs given back", child.pid, given_back)
                self._give_back_lingering()

    # -- replacing ----------------------------------------------------------------------------------------------------

    def _wear_out(self, child: Child | None, reason: str, text: str) -> None:
        if child is None or not child.fresh or self._quiet or self._stopping:
            return
        child.worn = reason
        self.replaced[reason] += 1
        log.info("worker process %d is replaced: %s", child.pid, text)
        self._start_missing()

    def _retire_worn(self) -> None:
        """Let worn children go, as far as others have taken their place."""
        ready = sum(child.ready and child.fresh for child in self._children.values())
        worn = [child for child in self._children.values() if child.worn and not child.retiring]
        for child in worn[: max(0, ready + len(worn) - self._wanted)]:
            child.retiring = True
            child.tell(RETIRE)

    def _measure(self, child: Child) -> None:
        """Find out where the limit of a new child's memory is: an app may need more than it is allowed."""
        limit, size = self._options.max_memory, child.memory()
        if limit is None or size is None:
            return
        if size >= limit:
            text = f"--max-memory {shown(limit)} is too little: a new worker process already takes {shown(size)}"
            if not self._begun:
                raise ConfigError(text)
            log.error("%s", text)
        child.limit = max(limit, size + size // 5)

    def _look_after(self) -> None:
        """Do what is due by the clock."""
        interval = self._notify.interval
        if interval is not None and now() >= self._next_sign and self.alive:
            self._next_sign = now() + interval
            self._notify.tell(WATCHDOG=1)
        if self._options.max_memory is not None:
            for child in list(self._children.values()):
                size = child.memory() if child.fresh and child.limit is not None else None
                if size is not None and child.limit is not None and size > child.limit:
                    self._wear_out(child, MAX_MEMORY, f"it takes {shown(size)}")

    def _pulse(self) -> float | None:
        """Seconds until something is due by the clock."""
        pulses = [] if self._options.max_memory is None else [_PULSE]
        if self._notify.interval is not None:
            pulses.append(max(0.01, min(_PULSE, self._next_sign - now())))
        return min(pulses, default=None)

    # -- starting and ending ------------------------------------------------------------------------------------------

    def _start_missing(self, *, first: bool = False) -> None:
        while not self._stopping and not self._quiet:
            if sum(child.fresh for child in self._children.values()) >= self._wanted:
                return
            try:
                self._start_child(_FIRST_PATIENCE if first else _PATIENCE)
            except LockworkError as error:
                if first:
                    raise
                log.error("a worker process could not be started: %s", error)
                self._later(1.0, ("start", None))
                return

    def _start_child(self, patience: float) -> None:
        child = process.start(self._loop, self._reports.descriptor)
        try:
            self.heartbeat.join(child.session, patience)
        except BaseException:
            child.process.kill()
            child.process.wait()
            child.let_go()
            raise
        self._children[child.session] = child
        child.tell(msgspec.json.encode(ChildOrders(self._options, child.session)) + b"\n")
        threading.Thread(target=self._watch, args=(child,), name=f"lockwork-watch-{child.pid}", daemon=True).start()
        log.info("worker process %d works on %s", child.pid, ", ".join(self._options.queues))

    def _watch(self, child: Child) -> None:
        child.process.wait()
        self._events.post(("exit", child))

    def _later(self, seconds: float, event: _Event) -> None:
        timer = threading.Timer(seconds, self._events.post, [event])
        timer.daemon = True
        timer.start()

    def _kill_all(self) -> None:
        for child in list(self._children.values()):
            child.kill()
