"""A worker inside another program's process: one event loop runs its jobs, threads renew its session."""

from __future__ import annotations

import asyncio
import os
import platform
import secrets
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

from lockwork.app.lockwork import Lockwork
from lockwork.durations import Duration, in_milliseconds, seconds
from lockwork.errors import ConfigError, LockworkError
from lockwork.logs import Log
from lockwork.protocol.dead.dead import Bounds
from lockwork.protocol.keys import QueueKeys, checked_queue
from lockwork.protocol.queue.leases import Buried
from lockwork.protocol.queue.status import session_name
from lockwork.validation import whole
from lockwork.worker.ipc.messages import (
    DONE,
    SESSION_OVER,
    Control,
    Load,
    Ready,
    Reported,
    SchedulesChanged,
    Urgency,
    buried_job,
)
from lockwork.worker.process.lifecycle import work
from lockwork.worker.settings import ProcessSettings, WorkerOptions
from lockwork.worker.supervisor.announcer import Announcer
from lockwork.worker.supervisor.heartbeat import DeadSetTrimmer, Heartbeat, Seen
from lockwork.worker.supervisor.scheduler import Scheduler
from lockwork.worker.supervisor.status import WorkerStatus
from lockwork.workers import EmbeddedWorker

log: Log = Log("lockwork.worker")

_PATIENCE = 1.0
"""Seconds to wait for the server at the end of a session."""


class OneProcess:
    """This process, as the status of its worker shows it; receives what the worker process part reports."""

    def __init__(self, on_ready: Callable[[], None], on_schedules: Callable[[str], None] = lambda _: None) -> None:
        self.working: int = 0
        self.wanted: int = 1
        self.isolating: int = 0
        self.replaced: Counter[str] = Counter()
        self.runners_replaced: Counter[str] = Counter()
        self._on_ready = on_ready
        self._on_schedules = on_schedules
        self._load: Load | None = None

    def report(self, message: Reported) -> None:
        """Receive a report, on the event loop."""
        if isinstance(message, Ready):
            self.working = 1
            self._on_ready()
        elif isinstance(message, Load):
            self._load = message
        elif isinstance(message, SchedulesChanged):
            self._on_schedules(message.queue)

    def loads(self) -> list[Load]:
        """Return the load, once it is known."""
        return [] if self._load is None else [self._load]

    def memory(self) -> list[list[int]]:
        """Return nothing: the memory is the program's."""
        return []

    def idle_on(self, queue: str) -> bool:
        """Return True if no job of the queue ran at the last report."""
        return all(job.queue != queue for load in self.loads() for job in load.jobs)


class WorkerOfProcess(EmbeddedWorker):
    """See EmbeddedWorker. `burst`: end when no queue has a job that can run now."""

    def __init__(self, app: Lockwork, options: WorkerOptions) -> None:
        if not options.queues:
            raise ConfigError("this app has no tasks: import the modules that define them, or pass queues=[...]")
        self._app = app
        self._options = options
        self._queues = {
            name: QueueKeys(app.config.prefix, name)
            for queue in options.queues
            for name in app.config.partitions.names(queue)
        }
        self._lock = threading.Lock()
        self._running: tuple[asyncio.AbstractEventLoop, Control] | None = None
        self._stop_wanted = False
        self._session: _Session | None = None
        self.next_due: float | None = None
        """After a run: seconds from its last fetch until a job is due; None without such a job."""
        self.on_ready: Callable[[], None] = lambda: None
        """Called on the event loop when the worker begins to fetch jobs."""

    def run(self) -> None:
        """See EmbeddedWorker."""
        # with a factory, the runner does not replace the thread's event loop
        with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
            runner.run(self.arun())

    async def arun(self) -> None:
        """See EmbeddedWorker."""
        control = Control()
        with self._lock:
            if self._running is not None:
                raise RuntimeError("this worker runs already")
            self._running = asyncio.get_running_loop(), control
            if self._stop_wanted:
                self._stop_wanted = False
                control.raise_to(Urgency.STOP)
        try:
            status = SESSION_OVER
            while status == SESSION_OVER and control.urgency < Urgency.QUIET:
                session = self._session = _Session(self._app, self._options, self._queues, control, self.on_ready)
                status = await session.run()
                self.next_due = control.next_due()
                if session.over and control.urgency == Urgency.NOW:
                    control, status = Control(), SESSION_OVER
                    with self._lock:
                        self._running = asyncio.get_running_loop(), control
        finally:
            with self._lock:
                self._running = self._session = None
        if status not in (DONE, SESSION_OVER):
            raise LockworkError("the worker could not be set up, or failed: its log says why")

    def stop(self) -> None:
        """See EmbeddedWorker."""
        with self._lock:
            if self._running is None:
                self._stop_wanted = True
                return
            loop, control = self._running
        urgency = Urgency.STOP if control.urgency < Urgency.STOP else Urgency.NOW
        try:
            loop.call_soon_threadsafe(control.raise_to, urgency)
        except RuntimeError:
            return  # its loop is closed

    def check(self) -> None:
        """Look for jobs now, from any thread: a test has set the server's clock."""
        with self._lock:
            running, session = self._running, self._session
        if running is not None and session is not None:
            loop, control = running
            for name in self._queues:
                session.declare(name)
                loop.call_soon_threadsafe(partial(_lost, control, name))


def _lost(control: Control, queue: str) -> None:
    control.on_session_lost(queue)


class _Session:
    """One session of the worker: joins the queues, keeps the session alive, and leaves."""

    def __init__(
        self,
        app: Lockwork,
        options: WorkerOptions,
        queues: dict[str, QueueKeys],
        control: Control,
        on_ready: Callable[[], None],
    ) -> None:
        self.over: bool = False
        """True if the server counts the session as dead."""
        self._app = app
        self._options = options
        self._control = control
        self._loop = asyncio.get_running_loop()
        self._name = session_name(platform.node(), os.getpid(), secrets.token_hex(4))
        self._scheduler = Scheduler(app.runtime, queues, app.plans)
        self._process = OneProcess(on_ready, self._scheduler.look)
        trimmer = DeadSetTrimmer(
            app.runtime, Bounds(in_milliseconds(app.config.dead_ttl), app.config.dead_limit), app.config.history
        )
        self._heartbeat = Heartbeat(
            app.runtime, queues, options.lease, in_milliseconds(app.config.result_ttl), self._on_over, lambda _: None,
            trimmer, on_buried=self._on_buried, on_suspects=self._on_suspects, on_lost=self._on_lost,
            on_schedules=self._scheduler.look, registry=app.registry,
        )  # fmt: skip
        self._status = WorkerStatus(self._process, self._heartbeat, options.lease)
        self._announcer = Announcer(app, options, self._status, self._on_order)

    async def run(self) -> int:
        """Run jobs until the end is requested; return the exit status. A cancellation ends them at once."""
        await asyncio.to_thread(self._heartbeat.join, self._name, self._app.config.patience, whole=True)
        self._heartbeat.start()
        self._scheduler.start()
        self._announcer.start()
        settings = ProcessSettings(self._options, self._name, embedded=True)
        working = asyncio.create_task(work(self._app, settings, self._control, self._process), name="lockwork-worker")
        try:
            return await asyncio.shield(working)
        except asyncio.CancelledError:
            self._control.raise_to(Urgency.NOW)
            await asyncio.wait([working])
            raise
        finally:
            await asyncio.shield(asyncio.to_thread(self._close))

    def _close(self) -> None:
        self._announcer.stop()
        self._scheduler.stop()
        self._heartbeat.stop()
        try:
            self._heartbeat.leave(self._name, _PATIENCE, counted=False)
        except LockworkError as error:
            log.warning("the session of this worker could not be ended, and expires: %s", error)

    def declare(self, queue: str) -> None:
        """Declare the queue's schedules, and enqueue their due slots, at once."""
        self._scheduler.declare(queue)

    # -- callbacks, on threads ----------------------------------------------------------------------------------------

    def _on_over(self, _session: str) -> None:
        self.over = True
        log.error("the session of the worker in this process has ended on the server: its jobs run elsewhere")
        self._loop.call_soon_threadsafe(self._control.raise_to, Urgency.NOW)

    def _on_lost(self, _session: str, queue: str) -> bool:
        self._scheduler.declare(queue)
        if not self._process.idle_on(queue):
            return False
        self._loop.call_soon_threadsafe(self._control.on_session_lost, queue)
        return True

    def _on_buried(self, queue: str, buried: list[Buried]) -> None:
        if self._app.registry.context.hooks.on_dead:
            for job in buried:
                self._loop.call_soon_threadsafe(self._control.ended.put_nowait, buried_job(queue, job))

    def _on_suspects(self, count: int, seen: Seen) -> None:
        if seen == "wait":
            log.warning("%d jobs that may have killed a worker wait for a worker of `lockwork worker`", count)

    def _on_order(self, order: str) -> None:
        if order == "stop":
            self._status.stopping = True
            self._loop.call_soon_threadsafe(self._control.raise_to, Urgency.STOP)
        elif order in ("quiet", "resume"):
            log.warning("the worker in this process ignores the order to %s: stop it, and start it again", order)


def embedded_worker(
    app: Lockwork,
    queues: Sequence[str] | None = None,
    concurrency: int = 100,
    lease: Duration = 15,
    grace: Duration = 30,
    *,
    burst: bool = False,
) -> WorkerOfProcess:
    """Return a worker: see `Lockwork.worker`. `burst`: it ends when no queue has a job that can run now."""
    if isinstance(queues, str):
        raise ConfigError(f"queues must be a list of names, such as [{queues!r}]")
    served = app.registry.queues() if queues is None else [checked_queue(queue) for queue in queues]
    lease_seconds = seconds(lease, "lease")
    if lease_seconds < 1:
        raise ConfigError(f"lease must be at least 1 s, so that heartbeats can renew it, not {lease!r}")
    return WorkerOfProcess(
        app,
        WorkerOptions(
            "",
            served,
            1,
            whole(concurrency, "concurrency", 1, 1000),
            lease_seconds,
            seconds(grace, "grace", zero=True),
            weights=[1] * len(served) if len(served) > 1 and (queues is None or burst) else None,
            burst=burst,
        ),
    )
