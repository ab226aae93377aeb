"""Announces a worker and its app on the server, and receives orders there."""

from __future__ import annotations

import os
import platform
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import version

import msgspec

from lockwork.app.announcement import announce
from lockwork.app.lockwork import Lockwork
from lockwork.errors import ServerUnavailable
from lockwork.logs import Log
from lockwork.protocol import announcements as protocol
from lockwork.protocol.announcements import TICKET, WORKERS
from lockwork.protocol.effects import Park, Protocol
from lockwork.protocol.queues.sessions import within
from lockwork.runtime.clock import now
from lockwork.runtime.replies import unforeseen
from lockwork.tasks.announcing import EVERY
from lockwork.worker.settings import WorkerOptions
from lockwork.worker.supervisor.status import WorkerStatus
from lockwork.workers import RunningJob, Worker

log: Log = Log("lockwork.worker")

_PAUSE = 5.0
"""Seconds between two announcements, unless something changes."""
_SHORTEST = 0.2
"""Seconds between two announcements, whatever changes."""
_REFUSED = 60.0
"""Seconds until the next try after the server answered with an error: its rules are not changed soon."""
_PATIENCE = 0.5
_MOST_JOBS = 200


class Announcer:
    """Announces from a thread of its own, for which nothing else of the worker waits.

    `on_order(order)` is called on that thread. A failure is logged once, and tried again.
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
        """When the app is announced next."""
        self._complained = False
        self._thread = threading.Thread(target=self._main, name="lockwork-announce", daemon=True)

    def start(self) -> None:
        """Begin to announce."""
        self._thread.start()

    def changed(self) -> None:
        """Announce soon: the worker's state is another."""
        if self._thread.is_alive():
            self._app.runtime.engine.wake(TICKET)

    def stop(self) -> None:
        """Take the announcement back, and end."""
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
            except Exception as error:  # whatever it is, the worker runs its jobs without
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
        handled = self._handled
        record = msgspec.msgpack.encode(self._worker())
        order = run(within(_PATIENCE, protocol.put(self._prefix, WORKERS, self._name, record, handled)))
        self._handled = order
        if order and order != handled:
            self._on_order(order)
        if now() >= self._app_at:
            run(within(_PATIENCE, announce(self._app, app_name(self._app, self._options.app))))
            self._app_at = now() + EVERY

    def _take_back(self) -> None:
        try:
            self._app.runtime.run(within(_PATIENCE, protocol.put(self._prefix, WORKERS, self._name, b"")))
        except Exception as error:  # noqa: BLE001 - it counts as lost soon, and is forgotten in an hour
            log.info("this worker could not remove its announcement: %s", error)

    def _worker(self) -> Worker:
        options, status = self._options, self._status
        loads = status.loads()
        jobs = [
            RunningJob(job.id, job.queue, job.task, datetime.fromtimestamp(job.since / 1e6, UTC), job.attempt)
            for load in loads
            for job in load.jobs
        ]
        sizes = [size for sizes in status.memory() for size in sizes]
        partitions = self._app.config.partitions
        return Worker(
            name=self._name,
            host=platform.node(),
            pid=os.getpid(),
            version=version("lockwork"),
            app=app_name(self._app, options.app),
            queues=[name for queue in options.queues for name in partitions.names(queue)],
            processes=options.processes,
            concurrency=options.concurrency,
            started=self._started,
            lease=options.lease,
            state="stopping" if status.stopping else "quiet" if status.quiet else "running",
            busy=sum(load.busy for load in loads),
            slots=options.processes * options.concurrency,
            jobs=jobs[:_MOST_JOBS],
            memory=sum(sizes) if sizes else None,
            lag=max((load.lag for load in loads), default=None),
            app_version=self._app.config.app_version or os.environ.get("LOCKWORK_APP_VERSION", ""),
        )


def app_name(app: Lockwork, reference: str) -> str:
    """The name of an app: its setting, else the text `module:object` by which its worker was started."""
    return app.config.app_name or reference


def _parked(until: float) -> Protocol[None]:
    yield Park(TICKET, until)


def _may_pass(error: Exception) -> bool:
    return isinstance(error, ServerUnavailable)
