"""The supervisor: keeps the leases of its children, and decides what happens when something happened to them."""

from __future__ import annotations

import signal
from functools import partial
from types import FrameType
from typing import Literal

from lockwork.app.lockwork import Lockwork
from lockwork.durations import in_milliseconds
from lockwork.logs import Log
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queues.dead import Bounds
from lockwork.protocol.queues.leases import Buried
from lockwork.validation import several
from lockwork.worker import environment
from lockwork.worker.ipc.hard_timeouts import HardTimeout, HardTimeouts
from lockwork.worker.ipc.messages import DIED, FAILED, MAX_JOBS, NOT_SET_UP, REFUSED, TOO_LONG, Reports
from lockwork.worker.settings import QUIET, READY, STOP, WORN, WorkerOptions, heard
from lockwork.worker.supervisor import child_process
from lockwork.worker.supervisor.child_process import WorkerProcess
from lockwork.worker.supervisor.events import EventQueue
from lockwork.worker.supervisor.heartbeat import Heartbeat, LeaseRenewals
from lockwork.worker.supervisor.hook_relay import HookRelay
from lockwork.worker.supervisor.processes import WorkerProcesses
from lockwork.worker.supervisor.scheduler import Scheduler
from lockwork.worker.supervisor.session_cleanup import SessionCleanup
from lockwork.worker.supervisor.status import WorkerStatus
from lockwork.worker.supervisor.systemd import SystemdNotifier

log: Log = Log("lockwork.worker")

_TRIES = 3
"""Consecutive failed starts after which a worker that ends with its work gives up."""
_HURRY = 3.0
"""Seconds that children have, beyond their grace, before they are killed."""
_PULSE = 1.0

_Event = (
    tuple[Literal["exit"], WorkerProcess]
    | tuple[Literal["signal"], int]
    | tuple[Literal["ready"], str]
    | tuple[Literal["worn"], tuple[str, str, str]]
    | tuple[Literal["start", "leave", "kill", "buried"], None]
)


class Supervisor:
    """Runs until told to stop, or until its children have done their work; `run` returns the exit status."""

    def __init__(self, app: Lockwork, options: WorkerOptions, *, loop: str | None = None) -> None:
        self._options = options
        self._events: EventQueue[_Event] = EventQueue()
        self._begun = False
        self._status = 0
        self._notify = SystemdNotifier()
        served = (name for queue in options.queues for name in app.config.partitions.names(queue))
        queues = {name: QueueKeys(app.config.prefix, name) for name in served}
        window_ms = in_milliseconds(app.config.result_ttl)
        bounds = Bounds(in_milliseconds(app.config.dead_ttl), app.config.dead_limit)
        keeper = LeaseRenewals(app.runtime, bounds)
        self._keep_bounds = partial(keeper.finish, queues)
        self._relay = HookRelay(app.registry.context.hooks)
        self._heartbeat = Heartbeat(
            app.runtime, queues, options.lease, window_ms, self._session_over, self._relay.add, keeper, self._possible,
            self._buried,
        )  # fmt: skip
        self._scheduler = Scheduler(app.runtime, queues, app.plans)
        self._reports = Reports(self._reported)
        self._overruns = HardTimeouts(self._too_long)
        self._returns = SessionCleanup(self._heartbeat, lambda seconds: self._events.later(seconds, ("leave", None)))
        self._crew = WorkerProcesses(
            options,
            environment.chosen(loop),
            self._reports.descriptor,
            self._heartbeat,
            on_exit=lambda child: self._events.post(("exit", child)),
            again=lambda seconds: self._events.later(seconds, ("start", None)),
        )
        self.condition: WorkerStatus = WorkerStatus(self._crew, self._heartbeat, options.lease)

    def run(self) -> int:
        """Work until SIGTERM, SIGINT or SIGHUP; raises a LockworkError when it cannot begin."""
        with self._events:
            return self._run()

    def _run(self) -> int:
        previous = {number: signal.signal(number, self._on_signal) for number in heard()}
        # ignored by the app, or by who has started us, it would keep from us how children ended
        previous[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._reports.start()
        crew = self._crew
        try:
            crew.fill(first=True)
            self._heartbeat.start()
            self._scheduler.start()
            while crew.children or (crew.wanted and not self.condition.stopping):
                self._handle(self._events.next(self._pulse()))
                self._look_after()
                if self._options.ends and crew.stillborn >= _TRIES:
                    log.error("worker processes cannot be started: this worker ends without having done its work")
                    self._status = FAILED
                    break
            self._keep_bounds()
            log.info("stopped")
            return self._status
        finally:
            crew.kill()
            self._scheduler.stop()
            self._heartbeat.stop()
            self._reports.close()
            self._overruns.stop()
            for child in crew.children.values():  # after an error
                child.process.wait()
                child.let_go()
                self._returns.give_back(child, leaving=self._leaving)
            self._relay.close()
            for number, handler in previous.items():
                signal.signal(number, handler)

    # -- what others tell, each on a thread of its own ----------------------------------------------------------------

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        self._events.post(("signal", number))

    def _reported(self, session: str, text: str) -> None:
        if text == READY:
            self._events.post(("ready", session))
        elif text == WORN:
            self._events.post(
                ("worn", (session, MAX_JOBS, f"{several(self._options.max_jobs or 0, 'job', 'jobs')} done"))
            )
        elif child_process.concerns(text):
            self._crew.hear_of_runner(session, text)
        else:
            self._overruns.hear(session, text)

    def _session_over(self, session: str) -> None:
        # its jobs run elsewhere now, so the process that still runs them must end
        child = self._crew.children.get(session)
        if child is not None:
            log.error("the server gave up worker process %d: it is killed and replaced", child.pid)
            child.process.kill()

    def _possible(self, session: str) -> None:
        self._events.post(("worn", (session, REFUSED, "a queue that refused it would take it now")))

    def _buried(self, queue: str, buried: list[Buried]) -> None:
        self._relay.add_buried(queue, buried)
        self._events.post(("buried", None))  # they are passed on after each event

    def _too_long(self, session: str, verdicts: list[HardTimeout]) -> None:
        child = self._crew.children.get(session)
        if child is not None:
            for verdict in verdicts:
                log.error(
                    "job %s is over its hard time-out: worker process %d is killed", verdict.outcome.id, child.pid
                )
            child.verdicts = verdicts
            child.kill()

    # -- what happens -------------------------------------------------------------------------------------------------

    def _handle(self, event: _Event | None) -> None:
        if event is None:
            return
        if event[0] == "exit":
            self._on_exit(event[1])
        elif event[0] == "signal":
            self._heed(event[1])
        elif event[0] == "ready":
            self._on_ready(event[1])
        elif event[0] == "worn":
            self._crew.wear_out(*event[1])
        elif event[0] == "start":
            self._crew.fill()
        elif event[0] == "leave":
            if not self.condition.stopping:
                self._returns.catch_up()
        elif event[0] == "kill":
            log.warning("worker processes that did not end in time are killed")
            self._crew.kill()

    def _heed(self, number: int) -> None:
        if number == signal.SIGUSR1:
            self._on_quiet()
        elif number != signal.SIGHUP or not self.condition.stopping:  # the shell sends it, and then the system
            self._on_stop()

    def _on_stop(self) -> None:
        again, self.condition.stopping = self.condition.stopping, True
        self._crew.open = False
        self._scheduler.cease()
        if not again:
            log.info("stopping: running jobs have %g s to end (a second signal ends them at once)", self._options.grace)
            self._crew.tell(STOP)
            self._events.later(self._options.grace + _HURRY, ("kill", None))
            self._notify.tell(STOPPING=1, STATUS="running jobs come to their end")
        else:
            log.info("stopping at once: running jobs are given back")
            self._crew.kill()

    def _on_quiet(self) -> None:
        if not self.condition.quiet and not self.condition.stopping:
            self.condition.quiet = True
            self._crew.open = False
            log.info("quiet: no more jobs are fetched; running ones go on")
            self._notify.tell(STATUS="quiet: no more jobs are fetched")
            self._crew.tell(QUIET)

    def _on_ready(self, session: str) -> None:
        child = self._crew.children.get(session)
        if child is None:
            return
        self._crew.begun(child, first=not self._begun)
        if not self._begun and not self.condition.stopping and self._crew.working >= self._crew.wanted:
            self._begun = True
            self._notify.tell(READY=1, STATUS=f"{self._crew.wanted} processes on {', '.join(self._options.queues)}")

    def _on_exit(self, child: WorkerProcess) -> None:
        self._crew.gone(child)
        self._overruns.forget(child.session)
        self._relay.gone(child)
        given_back = self._returns.give_back(child, leaving=self._leaving)
        if child.process.returncode == NOT_SET_UP and not child.ready and not self.condition.stopping:
            # trying again and again would only look like working: the caller that started the worker gets the error
            log.error("worker process %d could not set up what it needs (see above): the worker stops", child.pid)
            self._status = FAILED
            self._on_stop()
            return
        going = child.retiring or self.condition.stopping
        if child.orderly and (going or self._options.once or (self._options.burst and not child.verdicts)):
            if not going:
                # a worn one has a successor already, and that is the one that counts
                self._crew.wanted -= not child.worn
            return
        jobs = several(given_back, "job", "jobs")
        log.error("worker process %d ended (%s): %s given back", child.pid, child.fate, jobs)
        if not going:
            self._crew.replace(child, TOO_LONG if child.verdicts else DIED)

    @property
    def _leaving(self) -> bool:
        return self.condition.stopping or not self._begun

    # -- the clock ----------------------------------------------------------------------------------------------------

    def _look_after(self) -> None:
        """Do what is due, whatever has happened."""
        self._relay.pass_on(self._crew.children.values())
        if self.condition.alive:
            self._notify.sign()
        if self._options.max_memory is not None:
            self._crew.weigh()

    def _pulse(self) -> float | None:
        """Seconds until something is due by the clock."""
        pulses = [] if self._options.max_memory is None else [_PULSE]
        until_sign = self._notify.until_sign
        if until_sign is not None:
            pulses.append(max(0.01, min(_PULSE, until_sign)))
        return min(pulses, default=None)
