"""The supervisor renews the leases of its worker processes, and replaces ended ones."""

from __future__ import annotations

import signal
from functools import partial
from types import FrameType
from typing import Literal

from lockwork import words
from lockwork.app.lockwork import Lockwork
from lockwork.durations import in_milliseconds
from lockwork.errors import ConfigError, ServerUnavailable
from lockwork.logs import Log
from lockwork.protocol.dead.dead import Bounds
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue.leases import Buried
from lockwork.protocol.queue.limits import rules
from lockwork.protocol.queue.sessions import within
from lockwork.runtime.clock import now
from lockwork.worker import environment
from lockwork.worker.ipc.hard_timeouts import HardTimeouts
from lockwork.worker.ipc.messages import (
    DIED,
    FAILED,
    MAX_JOBS,
    MAX_TIME,
    NOT_IMPORTED,
    NOT_SET_UP,
    REFUSED,
    TOO_LONG,
    HardTimeout,
    HardTimeoutEnded,
    JobTimes,
    Load,
    Ready,
    Recycle,
    Reported,
    Reports,
    RunnerExited,
    RunnerStarted,
    SchedulesChanged,
)
from lockwork.worker.settings import WorkerOptions, handled_signals
from lockwork.worker.supervisor.announcer import Announcer
from lockwork.worker.supervisor.banner import log_found
from lockwork.worker.supervisor.child_process import WorkerProcess
from lockwork.worker.supervisor.events import EventQueue
from lockwork.worker.supervisor.heartbeat import DeadSetTrimmer, Heartbeat, Seen
from lockwork.worker.supervisor.hook_relay import HookRelay
from lockwork.worker.supervisor.orders import Orders
from lockwork.worker.supervisor.processes import WorkerProcesses
from lockwork.worker.supervisor.scheduler import Scheduler
from lockwork.worker.supervisor.session_cleanup import SessionCleanup
from lockwork.worker.supervisor.status import WorkerStatus
from lockwork.worker.supervisor.systemd import SystemdNotifier, warn_of_stop_timeout

log: Log = Log("lockwork.worker")

_TRIES = 3
"""Consecutive failed starts until a worker that ends with its work gives up."""
_PULSE = 1.0
_PATIENCE = 1.0
"""Seconds to wait for a server that may not run yet."""
_WAITING = 30.0
"""Seconds between two warnings about an unreachable server."""

_Event = (
    tuple[Literal["exit"], WorkerProcess]
    | tuple[Literal["order"], int | str]
    | tuple[Literal["ready"], str]
    | tuple[Literal["replace"], tuple[str, str, str]]
    | tuple[Literal["suspects"], tuple[int, Seen]]
    | tuple[Literal["lost"], tuple[str, str]]
    | tuple[Literal["start", "leave", "kill", "buried"], None]
)


class Supervisor:
    """Runs until a signal stops it, or until its children have done their work; `run` returns the exit status."""

    def __init__(self, app: Lockwork, options: WorkerOptions, *, loop: str | None = None) -> None:
        self._options = options
        self._runtime = app.runtime
        self._events: EventQueue[_Event] = EventQueue()
        self._started = False
        self._exit_at: float | None = None
        """Time of --exit-after, until it is reached."""
        self._status = 0
        self._systemd = SystemdNotifier()
        served = (name for queue in options.queues for name in app.config.partitions.names(queue))
        self._queues = queues = {name: QueueKeys(app.config.prefix, name) for name in served}
        window_ms = in_milliseconds(app.config.result_ttl)
        bounds = Bounds(in_milliseconds(app.config.dead_ttl), app.config.dead_limit)
        trimmer = DeadSetTrimmer(app.runtime, bounds, app.config.history)
        self._keep_bounds = partial(trimmer.finish, queues)
        self._relay = HookRelay(app.registry.context)
        self._scheduler = Scheduler(app.runtime, queues, app.plans)
        self._heartbeat = Heartbeat(
            app.runtime, queues, options.lease, window_ms, self._session_over, self._relay.add, trimmer,
            self._on_accepted, self._buried, self._on_suspects, self._session_lost,
            app.registry.context.observers, self._scheduler.look,
            app.registry,
        )  # fmt: skip
        self._reports = Reports(self._on_report)
        self._hard_timeouts = HardTimeouts(self._too_long)
        self._returns = SessionCleanup(self._heartbeat, lambda seconds: self._events.later(seconds, ("leave", None)))
        self._processes = WorkerProcesses(
            options,
            environment.chosen(loop),
            self._reports.descriptor,
            self._heartbeat,
            on_exit=self._on_process_end,
            again=lambda seconds: self._events.later(seconds, ("start", None)),
        )
        self.status: WorkerStatus = WorkerStatus(self._processes, self._heartbeat, options.lease)
        self._announcer = Announcer(app, options, self.status, lambda order: self._events.post(("order", order)))
        self._orders = Orders(
            options, self.status, self._processes, self._heartbeat, self._scheduler, self._announcer, self._systemd,
            kill_after=lambda seconds: self._events.later(seconds, ("kill", None)),
        )  # fmt: skip

    def run(self) -> int:
        """Work until SIGTERM, SIGINT or SIGHUP; raises a LockworkError when it cannot begin."""
        with self._events:
            return self._run()

    def _run(self) -> int:
        previous = {number: signal.signal(number, self._on_signal) for number in handled_signals()}
        # SIG_IGN, set by the app or inherited, would hide the exit statuses of children
        previous[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._reports.start()
        processes = self._processes
        if (limit := self._options.exit_after) is not None:
            self._exit_at = now() + limit
        try:
            self._wait_for_server()
            if not self.status.stopping:
                processes.fill(first=True)
                log_found(self._runtime)
                warn_of_stop_timeout(self._options.grace)
            self._heartbeat.start()
            self._scheduler.start()
            self._announcer.start()
            while processes.children or (processes.wanted and not self.status.stopping):
                self._handle(self._events.next(self._pulse()))
                self._periodic_work()
                if self._options.ends and processes.failed_starts >= _TRIES:
                    log.error("worker processes cannot be started: this worker stops before its jobs have ended")
                    self._status = FAILED
                    break
            self._keep_bounds()
            log.info("stopped")
            return self._status
        finally:
            processes.kill()
            self._announcer.stop()
            self._scheduler.stop()
            self._heartbeat.stop()
            self._reports.close()
            self._hard_timeouts.stop()
            for child in processes.children.values():  # after an error
                child.process.wait()
                child.close_input()
                self._returns.give_back(child, leaving=self._leaving)
            self._relay.close()
            for number, handler in previous.items():
                signal.signal(number, handler)

    def _wait_for_server(self) -> None:
        """Wait until the server answers, or until an order to stop. Raises a LockworkError if it refuses."""
        log_after = 0.0
        while self._options.wait and not self.status.stopping:
            self._heartbeat.turned = now()  # for /livez
            try:
                for keys in self._queues.values():
                    self._runtime.run(within(_PATIENCE, rules(keys)))
            except ServerUnavailable as error:
                if now() >= log_after:
                    log_after = now() + _WAITING
                    log.warning("this worker waits for the server: %s", error)
                self._systemd.notify(EXTEND_TIMEOUT_USEC=int(_WAITING * 1e6), STATUS="waiting for the server")
                self._handle(self._events.next(_PULSE))
                self._periodic_work()
            else:
                return

    # -- callbacks: of signals, and on other threads ------------------------------------------------------------------

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        self._events.post(("order", number))

    def _on_report(self, session: str, message: Reported) -> None:
        match message:
            case HardTimeout() | HardTimeoutEnded():
                self._hard_timeouts.receive(session, message)
            case Ready():
                self._events.post(("ready", session))
            case Recycle():
                done = words.several(self._options.max_jobs or 0, "job")
                self._events.post(("replace", (session, MAX_JOBS, f"{done} done")))
            case Load():
                self._processes.on_load(session, message)
            case JobTimes():
                self.status.times.add(message)
            case SchedulesChanged():
                self._scheduler.look(message.queue)
            case RunnerStarted() | RunnerExited():
                self._processes.on_runner_report(session, message)

    def _on_process_end(self, child: WorkerProcess) -> None:
        self._reports.flush()  # what the process reported before its end counts
        self._events.post(("exit", child))

    def _session_over(self, session: str) -> None:
        # other workers run its jobs now, so the process must end
        child = self._processes.children.get(session)
        if child is not None:
            log.error(
                "the session of worker process %d has ended on the server: the process is killed and replaced",
                child.pid,
            )
            child.process.kill()

    def _session_lost(self, session: str, queue: str) -> bool:
        self._scheduler.declare(queue)  # a server that lost the session may have lost the schedules as well
        child = self._processes.children.get(session)
        if child is None or not child.idle_on(queue):
            return False
        self._events.post(("lost", (session, queue)))
        return True

    def _on_accepted(self, session: str) -> None:
        self._events.post(("replace", (session, REFUSED, "the server now accepts it for a queue that refused it")))

    def _buried(self, queue: str, buried: list[Buried]) -> None:
        self._relay.add_buried(queue, buried)
        self._events.post(("buried", None))  # _periodic_work forwards them after each event

    def _on_suspects(self, count: int, seen: Seen) -> None:
        # a worker that ends with its work checks for suspects once; other workers handle later suspects
        if not self._options.once and (seen != "joined" or (self._options.burst and not self._started)):
            self._events.post(("suspects", (count, seen)))

    def _too_long(self, session: str, hard_timeouts: list[HardTimeout]) -> None:
        child = self._processes.children.get(session)
        if child is not None:
            for hard_timeout in hard_timeouts:
                log.error(
                    "job %s exceeded its hard time-out: worker process %d is killed", hard_timeout.outcome.id, child.pid
                )
            child.hard_timeouts = hard_timeouts
            child.kill()

    # -- events -------------------------------------------------------------------------------------------------------

    def _handle(self, event: _Event | None) -> None:
        """Handle an event; None and "buried" only cause the periodic work."""
        processes = self._processes
        match event:
            case ("exit", child):
                self._on_exit(child)
            case ("order", order):
                self._orders.receive(order)
            case ("ready", session):
                self._on_ready(session)
            case ("replace", (session, reason, text)):
                processes.replace_soon(session, reason, text)
            case ("suspects", (count, seen)):
                processes.isolate(count, more=seen == "wait")
            case ("lost", (session, queue)):
                processes.on_session_lost(session, queue)
            case ("start", _):
                processes.fill()
            case ("leave", _) if not self.status.stopping:
                self._returns.catch_up()
            case ("kill", _):
                log.warning("worker processes that did not end in time are killed")
                processes.kill()

    def _on_ready(self, session: str) -> None:
        child = self._processes.children.get(session)
        if child is None:
            return
        self._processes.on_ready(child, first=not self._started and not child.isolates)
        if (limit := self._options.max_time) is not None:
            self._events.later(limit, ("replace", (session, MAX_TIME, f"it has worked for {words.exact(limit)}")))
        if not self._started and not self.status.stopping and self._processes.working >= self._processes.wanted:
            self._started = True
            self._check_exit_memory()
            self._systemd.notify(READY=1, STATUS=self._orders.summary)

    def _check_exit_memory(self) -> None:
        """Raise ConfigError if the worker already exceeds --exit-memory; a process manager would restart it forever."""
        limit = self._options.exit_memory
        if limit is not None and (used := self._processes.whole_memory()) > limit:
            raise ConfigError(
                f"--exit-memory {words.size(limit)} is too low: the new worker already takes {words.size(used)}"
            )

    def _stop_at_limits(self) -> None:
        """Stop in order after --exit-after, or above --exit-memory."""
        if self.status.stopping:
            self._exit_at = None
            return
        why, limit = "", self._options.exit_memory
        if self._exit_at is not None and self._exit_at <= now():
            why = f"it has run for {words.exact(self._options.exit_after)}"
        elif limit is not None and self._started and (used := self._processes.whole_memory()) > limit:
            why = f"it takes {words.size(used)}, more than --exit-memory {words.size(limit)}"
        if why:
            log.info("this worker stops: %s", why)
            self._exit_at = None
            self._orders.stop()

    def _on_exit(self, child: WorkerProcess) -> None:
        self._processes.remove(child)
        self._hard_timeouts.forget(child.session)
        self._relay.on_exit(child)
        given_back = self._returns.give_back(child, leaving=self._leaving)
        if child.isolates:
            self._on_isolation_exit(child, given_back)
            return
        if child.process.returncode == NOT_SET_UP and not child.ready and not self.status.stopping:
            # retrying would hide the failure: the caller of the worker gets the exit status
            log.error("worker process %d failed to start (see above): the worker stops", child.pid)
            self._status = FAILED
            self._orders.stop()
            return
        if child.process.returncode == NOT_IMPORTED and not self.status.stopping and not self._processes.working:
            log.error("worker process %d could not import the app (see above): the worker stops", child.pid)
            self._status = FAILED
            self._orders.stop()
            return
        going = child.retiring or self.status.stopping
        if child.orderly and (going or self._options.once or (self._options.burst and not child.hard_timeouts)):
            if not going:
                # a replaced child already has a successor, which counts instead
                self._processes.wanted -= not child.replace_reason
            return
        jobs = words.several(given_back, "job")
        log.error("worker process %d ended (%s): %s returned to the queue", child.pid, child.fate, jobs)
        if not going:
            self._processes.replace(child, TOO_LONG if child.hard_timeouts else DIED)

    def _on_isolation_exit(self, child: WorkerProcess, given_back: int) -> None:
        processes = self._processes
        done = child.orderly and not child.hard_timeouts
        if not done:
            jobs = words.several(given_back, "job")
            log.error("worker process %d ended (%s): %s returned to the queue", child.pid, child.fate, jobs)
        if self.status.stopping:
            return
        if not done:
            processes.replace_isolation(child, TOO_LONG if child.hard_timeouts else DIED)
        elif self._options.burst and not processes.children:
            # suspects may have enqueued other jobs, or may be due for a retry
            processes.wanted = self._options.processes
            processes.fill()

    @property
    def _leaving(self) -> bool:
        return self.status.stopping or not self._started

    # -- periodic work ------------------------------------------------------------------------------------------------

    def _periodic_work(self) -> None:
        """Run periodic work that is due, after each event."""
        self._relay.forward(self._processes.children.values())
        if self.status.alive:
            self._systemd.sign()
        if self._options.max_memory is not None:
            self._processes.weigh()
        if self._exit_at is not None or self._options.exit_memory is not None:
            self._stop_at_limits()

    def _pulse(self) -> float | None:
        """Return the seconds until periodic work is due."""
        pulses = [] if (self._options.max_memory, self._options.exit_memory) == (None, None) else [_PULSE]
        if self._exit_at is not None:
            pulses.append(max(0.01, self._exit_at - now()))
        until_sign = self._systemd.until_sign
        if until_sign is not None:
            pulses.append(max(0.01, min(_PULSE, until_sign)))
        return min(pulses, default=None)
