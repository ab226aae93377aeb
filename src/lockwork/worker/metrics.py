"""What a worker tells Prometheus: its queues as the server knows them, and itself."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable

from lockwork.app import Lockwork
from lockwork.errors import LockworkError
from lockwork.protocol import hands, queue_status
from lockwork.protocol.hands import Heads
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue_status import QueueStatus
from lockwork.runtime.clock import now
from lockwork.worker.backlog import Backlog
from lockwork.worker.crew import REASONS
from lockwork.worker.memory import resident
from lockwork.worker.supervisor import Supervisor

_FRESH = 1.0
"""Seconds for which one look at the server is good enough, however many scrapes come."""
_PATIENCE = 1.0

_PLACES = ("ready", "scheduled", "running", "dead")
_COUNTERS = {
    "enqueued": "Jobs enqueued",
    "succeeded": "Jobs that succeeded",
    "failed": "Attempts that failed",
    "retried": "Attempts that failed and were followed by a retry",
    "recovered": "Jobs taken back from workers that died",
}


class Metrics:
    """Makes the text of a scrape; the cost is some calls per queue, at most once a second, whatever waits there."""

    def __init__(self, app: Lockwork, queues: Iterable[str], supervisor: Supervisor, lease: float) -> None:
        self._runtime = app.runtime
        self._supervisor = supervisor
        self._lease = lease
        self._queues = {name: QueueKeys(app.config.prefix, name) for name in queues}
        self._backlogs = {name: Backlog() for name in self._queues}
        self._lock = threading.Lock()
        self._looked: float | None = None
        self._text = ""

    def text(self) -> str:
        """Return the metrics in Prometheus' text format."""
        with self._lock:
            if self._looked is None or now() - self._looked > _FRESH:
                self._text = "".join([*self._own(), *self._of_the_server()])
                self._looked = now()
            return self._text

    def _own(self) -> Iterable[str]:
        supervisor, children = self._supervisor, self._supervisor.memory()
        beat = supervisor.heartbeat.last
        own = resident(os.getpid())
        yield _family("worker_ready", "gauge", "Whether this worker takes jobs", [("", not supervisor.trouble)])
        yield _family(
            "lease_age_seconds",
            "gauge",
            "Since the server last confirmed this worker's leases",
            [("", max(0.0, now() - beat))],
        )
        yield _family("lease_seconds", "gauge", "How long a lease lasts without being confirmed", [("", self._lease)])
        yield _family("worker_processes", "gauge", "Worker processes of this worker", [("", len(children))])
        sizes: list[tuple[str, float]] = [] if own is None else [('process="supervisor"', own)]
        sizes += [(f'process="{number}"', size) for number, size in enumerate(children, 1)]
        yield _family("worker_memory_bytes", "gauge", "Resident memory", sizes)
        replaced = [(f'reason="{reason}"', supervisor.replaced[reason]) for reason in REASONS]
        yield _family("worker_replaced_total", "counter", "Worker processes that were replaced", replaced)

    def _of_the_server(self) -> Iterable[str]:
        found: dict[str, tuple[QueueStatus, int, Heads]] = {}
        try:
            for name, keys in self._queues.items():
                status, workers = self._runtime.run(hands.within(_PATIENCE, queue_status.status(keys)))
                found[name] = status, len(workers), self._runtime.run(hands.within(_PATIENCE, hands.heads(keys)))
        except LockworkError:
            yield _family("server_up", "gauge", "Whether the server answers", [("", 0)])
            return
        yield _family("server_up", "gauge", "Whether the server answers", [("", 1)])
        yield _family(
            "jobs",
            "gauge",
            "Jobs by place",
            [
                (f'{_queue(name)},place="{place}"', getattr(status, place))
                for name, (status, _, _) in found.items()
                for place in _PLACES
            ],
        )
        for counter, text in _COUNTERS.items():
            totals = [(_queue(name), getattr(status, counter)) for name, (status, _, _) in found.items()]
            yield _family(f"jobs_{counter}_total", "counter", text, totals)
        ages = [(_queue(name), self._backlogs[name].age(heads)) for name, (_, _, heads) in found.items()]
        yield _family("oldest_ready_seconds", "gauge", "How long the oldest ready job has waited, about", ages)
        sessions = [(_queue(name), count) for name, (_, count, _) in found.items()]
        yield _family("queue_workers", "gauge", "Worker processes of all workers on a queue", sessions)
        left = [
            (_queue(name), heads.lease_left) for name, (_, _, heads) in found.items() if heads.lease_left is not None
        ]
        yield _family("lease_left_seconds", "gauge", "Until the first lease on a queue ends; negative: overdue", left)


def _queue(name: str) -> str:
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'queue="{escaped}"'


def _family(name: str, kind: str, text: str, samples: Iterable[tuple[str, float]]) -> str:
    full = f"lockwork_{name}"
    lines = [f"# HELP {full} {text}.\n# TYPE {full} {kind}\n"]
    lines += [f"{full}{{{labels}}} {value:.15g}\n" if labels else f"{full} {value:.15g}\n" for labels, value in samples]
    return "".join(lines)
