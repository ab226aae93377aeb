"""Metrics for Prometheus: the worker's own, and the server's figures about its queues."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable

from lockwork.app.lockwork import Lockwork
from lockwork.runtime.clock import now
from lockwork.telemetry.families import Family, QueueFamilies, exposition, gauge
from lockwork.worker.environment import resident
from lockwork.worker.ipc.messages import DIED, MAX_MEMORY, REASONS, TOO_LONG
from lockwork.worker.supervisor.status import WorkerStatus

_FRESH = 1.0
"""Seconds until the server's figures are read again, regardless of the number of scrapes."""


class Metrics:
    """Creates the text of a scrape. It costs some calls per queue, at most once a second, regardless of queue length.

    Written without prometheus-client, so that workers need no extra dependency.
    """

    def __init__(self, app: Lockwork, queues: Iterable[str], status: WorkerStatus, lease: float) -> None:
        self._status = status
        self._lease = lease
        self._queues = list(queues)
        self._families = QueueFamilies(app.runtime, app.config.prefix)
        self._lock = threading.Lock()
        self._looked: float | None = None
        self._text = ""

    def text(self) -> str:
        """Return the metrics in Prometheus' text format."""
        with self._lock:
            if self._looked is None or now() - self._looked > _FRESH:
                self._text = exposition([*self._own(), *self._families.read(self._queues)])
                self._looked = now()
            return self._text

    def _own(self) -> Iterable[Family]:
        status, children = self._status, self._status.memory()
        yield gauge("worker_ready", "Whether this worker takes jobs", not status.trouble)
        yield gauge("lease_age_seconds", "Time since the server last confirmed this worker's leases", status.silence)
        yield gauge("lease_seconds", "How long a lease lasts without being confirmed", self._lease)
        loads = status.loads()
        yield gauge("worker_slots_busy", "Jobs that this worker runs", sum(load.busy for load in loads))
        late = max((load.lag for load in loads), default=0.0)
        yield gauge("worker_event_loop_lag_seconds", "Maximum event-loop lag", late)
        yield gauge("worker_processes", "Worker processes of this worker", len(children))
        wait = Family("worker_job_wait_seconds", "histogram", "From the enqueue to the first start of a job, here")
        run = Family("worker_job_run_seconds", "histogram", "How long attempts ran in this worker")
        for queue, task, waited, ran in status.times.read():
            wait.add_times(waited, queue=queue, task=task)
            run.add_times(ran, queue=queue, task=task)
        yield from (wait, run)
        sizes, own = gauge("worker_memory_bytes", "Resident memory"), resident(os.getpid())
        if own is not None:
            sizes.add(own, process="supervisor")
        for number, (size, *of_runners) in enumerate(children, 1):
            sizes.add(size, process=f"{number}")
            for runner, other in enumerate(of_runners, 1):
                sizes.add(other, process=f"{number}.{runner}")
        yield sizes
        replaced = Family("worker_replaced_total", "counter", "Worker processes that were replaced")
        for reason in REASONS:
            replaced.add(status.replaced[reason], reason=reason)
        yield replaced
        count = sum(len(one) - 1 for one in children)
        yield gauge("worker_runners", "Runner processes of all worker processes of this worker", count)
        why = Family("runner_replaced_total", "counter", "Runner processes that were replaced")
        for reason in (DIED, MAX_MEMORY, TOO_LONG):
            why.add(status.runners_replaced[reason], reason=reason)
        yield why
