"""Announces a worker and its app on the server, and receives orders there."""

from __future__ import annotations

import os
import platform
import threading
from collections.abc import Callable
from datetime import UTC, datetime

import msgspec

from lockwork.app.announcement import announce, app_version, reference_of
from lockwork.app.lockwork import Lockwork
from lockwork.errors import ServerRefused, ServerUnavailable
from lockwork.logs import Log
from lockwork.protocol.announcements import announcements
from lockwork.protocol.announcements.announcements import TICKET, WORKERS
from lockwork.protocol.effects import Park, Protocol
from lockwork.protocol.queue.sessions import within
from lockwork.runtime.clock import now
from lockwork.runtime.replies import unforeseen
from lockwork.stuck import stuck_jobs
from lockwork.tasks.announcing import EVERY
from lockwork.version import VERSION
from lockwork.worker.ipc.messages import BusySlot
from lockwork.worker.settings import WorkerOptions
from lockwork.worker.supervisor.banner import log_shared_queues
from lockwork.worker.supervisor.status import WorkerStatus
from lockwork.workers import AwaitedJob, RunningJob, Worker, read_workers

log: Log = Log("lockwork.worker")

_PAUSE = 5.0
"""Seconds between two announcements, unless something changes."""
_SHORTEST = 0.2
"""Minimum seconds between two announcements."""
_REFUSED = 60.0
"""Seconds until the next try after an error reply: the server's access rules rarely change soon."""
_PATIENCE = 0.5
_MOST_JOBS = 200


class Announcer:
    """Announce from a dedicated thread, so that a slow announcement blocks no other part of the worker.

    Calls `on_order(order)` on that thread. Logs a repeated failure once, and retries.
    """

    def __init__(
        self, app: Lockwork, options: WorkerOptions, status: WorkerStatus, on_order: Callable[[str], None]
    ) -> None:
        self._app, self._options, self._status, self._on_order = app, options, status, on_order
        self._prefix = app.config.prefix
        self._name = app.runtime.process
        self._started = datetime.now(UTC)
        self._stop = threading.Event()
        self._handled = ""
        self._app_at = now()
        """Time of the next announcement of the app."""
        self._code = ""
        """Fingerprint of the app in its last announcement."""
        self._complained = False
        self._stuck = False
        """True after the warning that all slots wait for jobs that cannot start."""
        self._thread = threading.Thread(target=self._main, name="lockwork-announce", daemon=True)

    def start(self) -> None:
        """Start announcing."""
        self._thread.start()

    def changed(self) -> None:
        """Announce soon, because the worker's state changed."""
        if self._thread.is_alive():
            self._app.runtime.engine.wake(TICKET)

    def stop(self) -> None:
        """Withdraw the announcement, and end the thread."""
        self._stop.set()
        if self._thread.is_alive():
            self._app.runtime.engine.wake(TICKET)
            self._thread.join()

    def _main(self) -> None:
        while not self._stop.is_set():
            try:
                self._announce()
                self._complained = False
                pause = _PAUSE
            except Exception as error:  # the worker runs its jobs even if announcing fails
                if not self._complained:
                    log.warning(
                        "this worker could not be announced on the server: %s", error, exc_info=unforeseen(error)
                    )
                self._complained, pause = True, _PAUSE if _may_pass(error) else _REFUSED
            if self._stop.wait(_SHORTEST):
                break
            try:
                self._app.runtime.run(_parked(now() + pause))
            except Exception:  # noqa: BLE001 - without messages, it looks every 5 s
                self._stop.wait(pause)
        if not self._complained:
            self._take_back()

    def _announce(self) -> None:
        run = self._app.runtime.run
        if now() >= self._app_at:
            app = run(within(_PATIENCE, announce(self._app, app_name(self._app, self._options.app))))
            if not self._code:
                log_shared_queues(self._app, self._options, app.name)
            self._code, self._app_at = app.code, now() + EVERY
        handled = self._handled
        worker = self._worker()
        record = msgspec.msgpack.encode(worker)
        order = run(within(_PATIENCE, announcements.put(self._prefix, WORKERS, self._name, record, handled)))
        self._handled = order
        if order and order != handled:
            self._on_order(order)
        self._warn_if_stuck(worker)

    def _warn_if_stuck(self, worker: Worker) -> None:
        """Log once that jobs keep all slots, or all runners, and wait for results of jobs that cannot start."""
        full = 0 < worker.slots <= worker.waiting
        if not full and not (worker.waiting and any(job.runner == "waits" for job in worker.jobs)):
            self._stuck = False
            return
        try:
            others = self._app.runtime.run(within(_PATIENCE, read_workers(self._prefix)))
        except (ServerUnavailable, ServerRefused):
            return  # the next announcement retries
        mine = [each for each in stuck_jobs(others) if each.worker.name == self._name]
        if mine and not self._stuck:
            first = mine[0]
            what, option = (f"slot of this worker ({worker.slots})", "concurrency") if full else ("runner", "runners")
            log.warning(
                "every %s has a job that waits for the result of a job that cannot start: job %s of task %r waits for "
                "job %s in queue %r. Raise --%s, give the awaited jobs a queue and workers of their own, or use a flow",
                what, first.job.id, first.job.task, first.awaited.id, first.awaited.queue, option,
            )  # fmt: skip
        self._stuck = bool(mine)

    def _take_back(self) -> None:
        try:
            self._app.runtime.run(within(_PATIENCE, announcements.put(self._prefix, WORKERS, self._name, b"")))
        except Exception as error:  # noqa: BLE001 - it counts as lost soon, and is forgotten in an hour
            log.info("this worker could not remove its announcement: %s", error)

    def _worker(self) -> Worker:
        options, status = self._options, self._status
        loads = status.loads()
        running = [(number, job) for number, load in enumerate(loads) for job in load.jobs]
        running.sort(key=lambda each: not each[1].waits)
        sizes = [size for sizes in status.memory() for size in sizes]
        partitions = self._app.config.partitions
        return Worker(
            name=self._name,
            host=platform.node(),
            pid=os.getpid(),
            version=VERSION,
            app=app_name(self._app, options.app),
            queues=[name for queue in options.queues for name in partitions.names(queue)],
            processes=options.processes,
            concurrency=options.concurrency,
            started=self._started,
            lease=options.lease,
            state="stopping" if status.stopping else "quiet" if status.quiet else "running",
            busy=sum(load.busy for load in loads),
            slots=options.processes * options.concurrency + status.isolating,
            isolating=status.isolating,
            jobs=[_running(number, job) for number, job in running[:_MOST_JOBS]],
            memory=sum(sizes) if sizes else None,
            lag=max((load.lag for load in loads), default=None),
            app_version=app_version(self._app),
            code=self._code,
            waiting=sum(load.waiting for load in loads),
        )


def _running(process: int, job: BusySlot) -> RunningJob:
    waits = [AwaitedJob(each.id, each.queue, each.seconds) for each in job.waits]
    since = datetime.fromtimestamp(job.since / 1e6, UTC)
    return RunningJob(job.id, job.queue, job.task, since, job.attempt, waits, process, job.runner)


def app_name(app: Lockwork, reference: str) -> str:
    """Return the app's name: its setting, or the argument `module:object` of its worker.

    Several projects of a framework share an argument, which names a module of Lockwork; they have the name that
    `announce_producer` gives them.
    """
    if app.config.app_name:
        return app.config.app_name
    return (reference_of(app) if reference.startswith("lockwork.") else "") or reference


def _parked(until: float) -> Protocol[None]:
    yield Park(TICKET, until)


def _may_pass(error: Exception) -> bool:
    return isinstance(error, ServerUnavailable)
