"""Metrics for Prometheus: the worker, and its queues as the server sees them."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterable
from typing import NamedTuple

from lockwork.app.lockwork import Lockwork
from lockwork.errors import LockworkError, ServerRefused
from lockwork.ids import made_at
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queues import sessions
from lockwork.protocol.queues import status as queue_status
from lockwork.protocol.queues.limits import QueueRules
from lockwork.protocol.queues.sessions import QueueHead
from lockwork.protocol.queues.status import QueueStatus
from lockwork.runtime.clock import now
from lockwork.worker.environment import resident
from lockwork.worker.ipc.messages import DIED, MAX_MEMORY, REASONS, TOO_LONG
from lockwork.worker.supervisor.status import WorkerStatus


class Backlog:
    """Remembers when each ready list of one queue was last seen empty."""

    def __init__(self) -> None:
        self._empty: dict[int, int] = {}

    def age(self, heads: QueueHead) -> float:
        """Return how many seconds the oldest ready job has waited, about; 0 when none is ready."""
        oldest = 0
        for level, ids in enumerate(heads.first):
            if not ids:
                self._empty[level] = heads.at_ms
                continue
            times = [time for id in ids if (time := made_at(id)) is not None]
            since = max([*times, self._empty.get(level, 0)]) or heads.at_ms
            oldest = max(oldest, heads.at_ms - since)
        return oldest / 1000


_FRESH = 1.0
"""Seconds for which figures of the server are reused, however many scrapes come."""
_PATIENCE = 1.0

_PLACES = ("ready", "scheduled", "blocked", "running", "dead")
_COUNTERS = {
    "enqueued": "Jobs enqueued",
    "succeeded": "Jobs that succeeded",
    "failed": "Attempts that failed",
    "retried": "Attempts that failed and were followed by a retry",
    "recovered": "Jobs taken back from workers that died",
    "cancelled": "Jobs that were cancelled",
    "expired": "Jobs that were not begun in time",
}


class _Seen(NamedTuple):
    """A queue as the server knows it."""

    status: QueueStatus
    rules: QueueRules
    workers: int
    heads: QueueHead


class Metrics:
    """Makes the text of a scrape; the cost is some calls per queue, at most once a second, whatever waits there."""

    def __init__(self, app: Lockwork, queues: Iterable[str], status: WorkerStatus, lease: float) -> None:
        self._runtime = app.runtime
        self._status = status
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
        status, children = self._status, self._status.memory()
        own = resident(os.getpid())
        yield _family("worker_ready", "gauge", "Whether this worker takes jobs", [("", not status.trouble)])
        yield _family(
            "lease_age_seconds",
            "gauge",
            "Since the server last confirmed this worker's leases",
            [("", status.silence)],
        )
        yield _family("lease_seconds", "gauge", "How long a lease lasts without being confirmed", [("", self._lease)])
        yield _family("worker_processes", "gauge", "Worker processes of this worker", [("", len(children))])
        sizes: list[tuple[str, float]] = [] if own is None else [('process="supervisor"', own)]
        for number, (size, *of_runners) in enumerate(children, 1):
            sizes.append((f'process="{number}"', size))
            sizes += [(f'process="{number}.{runner}"', other) for runner, other in enumerate(of_runners, 1)]
        yield _family("worker_memory_bytes", "gauge", "Resident memory", sizes)
        replaced = [(f'reason="{reason}"', status.replaced[reason]) for reason in REASONS]
        yield _family("worker_replaced_total", "counter", "Worker processes that were replaced", replaced)
        count = sum(len(one) - 1 for one in children)
        yield _family(
            "worker_runners", "gauge", "Runner processes of all worker processes of this worker", [("", count)]
        )
        why = [(f'reason="{reason}"', status.runners_replaced[reason]) for reason in (DIED, MAX_MEMORY, TOO_LONG)]
        yield _family("runner_replaced_total", "counter", "Runner processes that were replaced", why)

    def _of_the_server(self) -> Iterable[str]:
        found: dict[str, _Seen] = {}
        try:
            for name, keys in self._queues.items():
                with contextlib.suppress(ServerRefused):  # it answers, and the other queues are no worse for it
                    found[name] = self._seen(keys)
        except LockworkError:
            yield _family("server_up", "gauge", "Whether the server answers", [("", 0)])
            return
        yield _family("server_up", "gauge", "Whether the server answers", [("", 1)])
        places = [
            (f'{_queue(name)},place="{place}"', getattr(seen.status, place))
            for name, seen in found.items()
            for place in _PLACES
        ]
        yield _family("jobs", "gauge", "Jobs by place", places)
        for counter, text in _COUNTERS.items():
            totals = [(_queue(name), getattr(seen.status, counter)) for name, seen in found.items()]
            yield _family(f"jobs_{counter}_total", "counter", text, totals)
        ages = [(_queue(name), self._backlogs[name].age(seen.heads)) for name, seen in found.items()]
        yield _family("oldest_ready_seconds", "gauge", "How long the oldest ready job has waited, about", ages)
        workers = [(_queue(name), seen.workers) for name, seen in found.items()]
        yield _family("queue_workers", "gauge", "Worker processes of all workers on a queue", workers)
        left = [(_queue(name), at) for name, seen in found.items() if (at := seen.heads.lease_left) is not None]
        yield _family("lease_left_seconds", "gauge", "Until the first lease on a queue ends; negative: overdue", left)
        yield from _rules({_queue(name): seen.rules for name, seen in found.items()})

    def _seen(self, keys: QueueKeys) -> _Seen:
        run = self._runtime.run
        status, workers, rules = run(sessions.within(_PATIENCE, queue_status.status_and_rules(keys)))
        return _Seen(status, rules, len(workers), run(sessions.within(_PATIENCE, sessions.queue_head(keys))))


def _rules(found: dict[str, QueueRules]) -> Iterable[str]:
    """What holds for whole queues, by label; a queue without a limit has no sample of it."""
    paused = [(label, rules.paused is not None) for label, rules in found.items()]
    yield _family("queue_paused", "gauge", "Whether a queue is paused", paused)
    at_once = [(label, rules.concurrency) for label, rules in found.items() if rules.concurrency is not None]
    yield _family("queue_concurrency_limit", "gauge", "Jobs of a queue that may run at once", at_once)
    sizes = [(label, rules.size) for label, rules in found.items() if rules.size is not None]
    yield _family("queue_size_limit", "gauge", "Jobs that may wait in a queue, ready or scheduled", sizes)
    rates = [(label, rate[0] / rate[1] * 1000) for label, rules in found.items() if (rate := rules.rate) is not None]
    yield _family("queue_rate_limit_per_second", "gauge", "Jobs of a queue that may begin in a second", rates)


def _queue(name: str) -> str:
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'queue="{escaped}"'


def _family(name: str, kind: str, text: str, samples: Iterable[tuple[str, float]]) -> str:
    full = f"lockwork_{name}"
    lines = [f"# HELP {full} {text}.\n# TYPE {full} {kind}\n"]
    lines += [f"{full}{{{labels}}} {value:.15g}\n" if labels else f"{full} {value:.15g}\n" for labels, value in samples]
    return "".join(lines)
