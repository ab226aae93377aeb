"""Metric families of queues, tasks, locks and stocks, as the server knows them, and Prometheus' text format."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from lockwork.errors import LockworkError, ServerRefused
from lockwork.ids import made_at
from lockwork.protocol.keys import QueueKeys, base_queue
from lockwork.protocol.locks import counts as lock_counts
from lockwork.protocol.locks import overview
from lockwork.protocol.queues import metrics, sessions, stock
from lockwork.protocol.queues import status as queue_status
from lockwork.protocol.queues.limits import QueueRules
from lockwork.protocol.queues.metrics import PER_OCTAVE, Moment, Times
from lockwork.protocol.queues.sessions import QueueHead
from lockwork.protocol.queues.status import QueueStatus
from lockwork.runtime.clock import now
from lockwork.runtime.runtime import Runtime

PREFIX = "lockwork_"
PATIENCE: float = 1.0
"""Seconds to wait for the server."""
_PLACES = ("ready", "scheduled", "blocked", "running", "dead")
_COUNTERS = {
    "enqueued": "Jobs enqueued",
    "succeeded": "Jobs that succeeded",
    "failed": "Attempts that failed",
    "retried": "Attempts that failed and were followed by a retry",
    "recovered": "Jobs recovered from workers that died",
    "cancelled": "Jobs that were cancelled",
    "expired": "Jobs that did not start in time",
}
_OUTCOMES = ("succeeded", "retried", "dead", "cancelled", "expired")
_OCTAVES = range(10, 31)
"""The upper ends of a histogram's buckets: 2**10 us (1 ms) to 2**30 us (18 min)."""
_HANDED_OCTAVES = range(6, 25)
"""The same for hand-overs: 64 us to 17 s."""
_LOCKS_FRESH = 15.0
"""Seconds for which the counts of locks are reused: all locks are read for them."""


class Sample(NamedTuple):
    """One value; `suffix` follows the name of its family."""

    labels: dict[str, str]
    value: float
    suffix: str = ""


@dataclass(slots=True)
class Family:
    """A metric with its samples; a counter's name ends with `_total`."""

    name: str
    kind: Literal["gauge", "counter", "histogram"]
    text: str
    samples: list[Sample] = field(default_factory=list)

    def add(self, value: float, **labels: str) -> None:
        """Add a sample."""
        self.samples.append(Sample(labels, value))

    def add_times(self, times: Times, octaves: range = _OCTAVES, **labels: str) -> None:
        """Add the samples of a histogram."""
        ordered = sorted(times.counts.items())
        count = at = 0
        for octave in octaves:
            while at < len(ordered) and ordered[at][0] < octave * PER_OCTAVE:
                count += ordered[at][1]
                at += 1
            self.samples.append(Sample({**labels, "le": f"{2**octave / 1e6:.15g}"}, count, "_bucket"))
        total = times.counts.total()
        self.samples.append(Sample({**labels, "le": "+Inf"}, total, "_bucket"))
        self.samples.append(Sample(labels, times.sum / 1e6, "_sum"))
        self.samples.append(Sample(labels, total, "_count"))


def gauge(name: str, text: str, value: float | None = None) -> Family:
    """Make a gauge, with one sample if a value is given."""
    return Family(name, "gauge", text, [] if value is None else [Sample({}, value)])


def exposition(families: Iterable[Family]) -> str:
    """Return families in Prometheus' text format."""
    return "".join(line for family in families for line in _lines(family))


def _lines(family: Family) -> Iterator[str]:
    full = PREFIX + family.name
    yield f"# HELP {full} {family.text}.\n# TYPE {full} {family.kind}\n"
    for labels, value, suffix in family.samples:
        shown = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels.items())
        yield f"{full}{suffix}{{{shown}}} {value:.15g}\n" if shown else f"{full}{suffix} {value:.15g}\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


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


class _Seen(NamedTuple):
    """A queue as the server knows it."""

    status: QueueStatus
    rules: QueueRules
    workers: int
    heads: QueueHead


class QueueFamilies:
    """Families of queues; the cost is three calls per queue, whatever waits there."""

    def __init__(self, runtime: Runtime, prefix: str) -> None:
        self._run = runtime.run
        self._prefix = prefix
        self._backlogs: dict[str, Backlog] = {}

    def read(self, queues: Iterable[str]) -> Iterator[Family]:
        """Read the queues; without those that the server refuses to read, and without all if it does not answer."""
        found: dict[str, _Seen] = {}
        try:
            for name in queues:
                with contextlib.suppress(ServerRefused):  # it answers, and the other queues are no worse for it
                    found[name] = self._seen(name)
        except LockworkError:
            yield gauge("server_up", "Whether the server answers", 0)
            return
        yield gauge("server_up", "Whether the server answers", 1)
        places = gauge("jobs", "Jobs by place")
        for name, seen in found.items():
            for place in _PLACES:
                places.add(getattr(seen.status, place), queue=name, place=place)
        yield places
        for counter, text in _COUNTERS.items():
            yield _each(
                Family(f"jobs_{counter}_total", "counter", text),
                found,
                lambda seen: getattr(seen.status, counter),  # noqa: B023 - called at once
            )
        ages = gauge("oldest_ready_seconds", "Estimate of how long the oldest ready job has waited")
        for name, seen in found.items():
            ages.add(self._backlogs.setdefault(name, Backlog()).age(seen.heads), queue=name)
        yield ages
        for name, text, value in _FACTS:
            yield _each(gauge(name, text), found, value)

    def _seen(self, name: str) -> _Seen:
        keys = QueueKeys(self._prefix, name)
        status, workers, rules = self._run(sessions.within(PATIENCE, queue_status.status_and_rules(keys)))
        return _Seen(status, rules, len(workers), self._run(sessions.within(PATIENCE, sessions.queue_head(keys))))


def _rate(seen: _Seen) -> float | None:
    return None if seen.rules.rate is None else seen.rules.rate[0] / seen.rules.rate[1] * 1000


_FACTS: tuple[tuple[str, str, Callable[[_Seen], float | None]], ...] = (
    ("queue_workers", "Worker processes of all workers on a queue", lambda seen: seen.workers),
    (
        "lease_left_seconds",
        "Time until the first lease on a queue ends; negative if overdue",
        lambda seen: seen.heads.lease_left,
    ),
    ("queue_paused", "Whether a queue is paused", lambda seen: seen.rules.paused is not None),
    ("queue_concurrency_limit", "Jobs of a queue that may run at once", lambda seen: seen.rules.concurrency),
    ("queue_size_limit", "Jobs that may wait in a queue, ready or scheduled", lambda seen: seen.rules.size),
    ("queue_rate_limit_per_second", "Jobs of a queue that may start per second", _rate),
)
"""A queue without a limit has no sample of it."""


def _each(family: Family, found: Mapping[str, _Seen], value: Callable[[_Seen], float | None]) -> Family:
    for name, seen in found.items():
        if (known := value(seen)) is not None:
            family.add(known, queue=name)
    return family


class TaskFamilies:
    """Counts and times of tasks as counters, which rise from the first reading on.

    The server keeps them by minute. A minute that is over does not change any more, so it is added for good; this
    minute is added as it is now.
    """

    def __init__(self, runtime: Runtime, prefix: str) -> None:
        self._run = runtime.run
        self._prefix = prefix
        self._past: dict[tuple[str, str], Moment] = {}
        self._base: dict[str, tuple[int, dict[str, Moment]]] = {}
        """By partition, the first minute that was read, and what it held then, which is left out."""
        self._next: dict[str, int] = {}
        """By partition, the first minute that is not added for good yet."""
        self._first = 0
        """The minute of the first reading."""

    def read(self, queues: Iterable[str]) -> list[Family]:
        """Read what ended in these queues, at most an hour after the last reading."""
        present: dict[tuple[str, str], Moment] = {}
        for name in queues:
            with contextlib.suppress(ServerRefused):
                self._read(name, present)
        self._first = self._first or max(self._next.values(), default=1)
        attempts = Family("attempts_total", "counter", "Attempts that ended, by outcome, since this exporter started")
        wait = Family("job_wait_seconds", "histogram", "From the enqueue to the first start of a job")
        run = Family("job_run_seconds", "histogram", "How long attempts ran")
        for queue, task in sorted(self._past.keys() | present):
            whole = Moment()
            for part in (self._past, present):
                whole.merge(part.get((queue, task), Moment()))
            for outcome in _OUTCOMES:
                attempts.add(whole.counts[outcome], queue=queue, task=task, outcome=outcome)
            wait.add_times(whole.wait, queue=queue, task=task)
            run.add_times(whole.run, queue=queue, task=task)
        return [attempts, wait, run]

    def _read(self, name: str, present: dict[tuple[str, str], Moment]) -> None:
        found = self._run(metrics.read(QueueKeys(self._prefix, name), "m", 60))
        queue = base_queue(name)
        if not self._first:
            present_now = {task: moments[found.last] for task, moments in found.tasks.items() if found.last in moments}
            self._base[name], self._next[name] = (found.last, present_now), found.last
            self._past |= {(queue, task): Moment() for task in found.tasks}  # so that they rise from 0
            return
        # what a queue has that comes later has ended since
        self._next.setdefault(name, self._first)
        since, base = self._base.get(name, (0, {}))
        for task, moments in found.tasks.items():
            for number, moment in moments.items():
                if number < self._next[name]:
                    continue
                if number == since and task in base:
                    moment.subtract(base[task])
                (self._past if number < found.last else present).setdefault((queue, task), Moment()).merge(moment)
        self._next[name] = max(self._next[name], found.last)


class LockFamilies:
    """Families of locks and stocks, which are found by scans."""

    def __init__(self, runtime: Runtime, prefix: str) -> None:
        self._run = runtime.run
        self._prefix = prefix
        self._read_at: float | None = None
        self._locks: list[Family] = []

    def locks(self) -> list[Family]:
        """Count locks that are held, and waiters, by kind; at most every 15 s."""
        if self._read_at is None or now() - self._read_at > _LOCKS_FRESH:
            held, waiting, stuck = Counter[str](), Counter[str](), 0
            found = self._run(overview.look(self._prefix))
            for lock in found.locks:
                held[lock.kind] += bool(lock.holders)
                waiting[lock.kind] += len(lock.line) + lock.more_waiters
            stuck = len(found.deadlocks)
            held_now = gauge("locks_held", "Held locks, by kind")
            waiters = gauge("lock_waiters", "Callers that wait for a lock, by kind")
            for kind in overview.KINDS:
                held_now.add(held[kind], kind=kind)
                waiters.add(waiting[kind], kind=kind)
            self._locks = [held_now, waiters, gauge("lock_deadlocks", "Deadlocks among the holders of locks", stuck)]
            self._read_at = now()
        return self._locks

    def counts(self) -> list[Family]:
        """Count leases that were lost, and time hand-overs, by kind."""
        lost = Family("lock_leases_lost_total", "counter", "Leases that ended while their holders lived, by kind")
        handed = Family("lock_handover_seconds", "histogram", "Time from a lock's release to its next holder, by kind")
        amounts = self._run(lock_counts.read(self._prefix))
        times = {kind: Times(amounts.get(f"sum:{kind}", 0)) for kind in lock_counts.KINDS}
        for name, amount in amounts.items():
            what, _, rest = name.partition(":")
            kind, _, number = rest.partition(":")
            if what == "handed" and kind in times:
                times[kind].counts[int(number)] = amount
        for kind, each in times.items():
            lost.add(amounts.get(f"lost:{kind}", 0), kind=kind)
            handed.add_times(each, _HANDED_OCTAVES, kind=kind)
        return [lost, handed]

    def stocks(self) -> list[Family]:
        """Count the units of all stocks."""
        units = gauge("stock_units", "Units of a stock by place")
        for queue, name, status, _ in self._run(stock.overview(self._prefix, minutes=0)):
            for place in ("available", "reserved", "sold"):
                units.add(getattr(status, place), queue=queue, stock=name, place=place)
        return [units]
