"""Metric families of queues, tasks, locks and stocks from the server's data, and Prometheus' text format."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

from msgspec import Struct, field

from lockwork.errors import LockworkError, ServerRefused
from lockwork.inspection.overview import OverviewReader, Part
from lockwork.inspection.queue_state import PartitionState
from lockwork.protocol.keys import QueueKeys, base_queue
from lockwork.protocol.locks import counts as lock_counts
from lockwork.protocol.locks.overview import KINDS, Overview
from lockwork.protocol.metrics import metrics
from lockwork.protocol.metrics.metrics import PER_OCTAVE, Moment, Times
from lockwork.protocol.queue import sessions
from lockwork.protocol.stock import stock
from lockwork.runtime.runtime import Runtime

PREFIX = "lockwork_"
PATIENCE: float = 1.0
"""Seconds to wait for the server."""
_STATES = ("ready", "scheduled", "blocked", "running", "dead")
_COUNTERS = {
    "enqueued": "Jobs enqueued",
    "succeeded": "Jobs that succeeded",
    "failed": "Attempts that failed",
    "retried": "Attempts that failed and were followed by a retry",
    "recovered": "Jobs recovered from workers that died",
    "cancelled": "Jobs that were cancelled",
    "expired": "Jobs that did not start in time",
    "skipped": "Jobs of flows that run only after a failure, which did not occur",
}
_OUTCOMES = ("succeeded", "retried", "dead", "cancelled", "expired")
_OCTAVES = range(10, 31)
"""Upper bounds of a histogram's buckets: 2**10 us (1 ms) to 2**30 us (18 min)."""
_HANDED_OCTAVES = range(6, 25)
"""Upper bounds of the buckets for hand-overs: 64 us to 17 s."""
_RECENT = 3
"""Minutes of tasks that are read first; a full hour if the last read is older."""
QUEUE_PARTS = Part.QUEUES | Part.AGES | Part.LEASES


class Sample(NamedTuple):
    """One value; `suffix` follows the name of its family."""

    labels: dict[str, str]
    value: float
    suffix: str = ""


class Family(Struct):
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
    """Make a gauge, with one sample if `value` is not None."""
    return Family(name, "gauge", text, [] if value is None else [Sample({}, value)])


def exposition(families: Iterable[Family]) -> str:
    """Return families in Prometheus' text format."""
    return "".join(line for family in families for line in _lines(family))


def _lines(family: Family) -> Iterator[str]:
    full = PREFIX + family.name
    yield f"# HELP {full} {family.text}.\n# TYPE {full} {family.kind}\n"
    for labels, value, suffix in family.samples:
        label_text = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels.items())
        yield f"{full}{suffix}{{{label_text}}} {value:.15g}\n" if label_text else f"{full}{suffix} {value:.15g}\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


class QueueFamilies:
    """Reads families of queues: two calls per queue, and a call per 500 keys and groups with waiting jobs."""

    def __init__(self, runtime: Runtime, prefix: str) -> None:
        self._run = runtime.run
        self._prefix = prefix
        self._reader = OverviewReader()

    def read(self, queues: Iterable[str]) -> list[Family]:
        """Read the queues; skips queues that the server refuses to read, and returns none if it does not answer."""
        read = self._reader.protocol(self._prefix, QUEUE_PARTS, names=list(queues), skip_refused=True)
        try:
            overview = self._run(sessions.within(PATIENCE, read))
        except LockworkError:
            return [server_up(0)]
        return queue_families(overview.partitions)


def server_up(value: int) -> Family:
    """Return the gauge that shows if the server answers."""
    return gauge("server_up", "Whether the server answers", value)


def queue_families(queues: Sequence[PartitionState]) -> list[Family]:
    """Return the families of queues that have QUEUE_PARTS."""
    states = gauge("jobs", "Jobs by state")
    for queue in queues:
        for state in _STATES:
            states.add(getattr(queue.status, state), **_queue(queue.name), state=state)
    families = [server_up(1), states]
    for counter, text in _COUNTERS.items():
        families.append(_each(Family(f"jobs_{counter}_total", "counter", text), queues, _counter(counter)))
    died = Family("jobs_died_total", "counter", "Jobs that failed for good: they went to the dead set")
    families.append(_each(died, queues, lambda queue: queue.status.failed - queue.status.retried))
    oldest = gauge("oldest_ready_seconds", "Estimate of how long the oldest ready job has waited")
    families.append(_each(oldest, queues, lambda queue: queue.oldest.seconds if queue.oldest.known else None))
    return [*families, *(_each(gauge(name, text), queues, value) for name, text, value in _FACTS)]


def _counter(name: str) -> Callable[[PartitionState], float]:
    return lambda queue: float(getattr(queue.status, name))


def _queue(name: str) -> dict[str, str]:
    """Return the labels of a queue; a partition also has its number."""
    queue, slash, partition = name.partition("/")
    return {"queue": queue, "partition": partition} if slash else {"queue": queue}


def _rate(queue: PartitionState) -> float | None:
    return None if queue.rules.rate is None else queue.rules.rate[0] / queue.rules.rate[1] * 1000


_FACTS: tuple[tuple[str, str, Callable[[PartitionState], float | None]], ...] = (
    ("queue_workers", "Worker processes of all workers on a queue", lambda queue: len(queue.workers)),
    (
        "lease_left_seconds",
        "Time until the first lease on a queue ends; negative if overdue",
        lambda queue: queue.lease_left,
    ),
    ("queue_paused", "Whether a queue is paused", lambda queue: queue.rules.paused is not None),
    ("queue_concurrency_limit", "Jobs of a queue that may run at once", lambda queue: queue.rules.concurrency),
    ("queue_size_limit", "Jobs that may wait in a queue, ready or scheduled", lambda queue: queue.rules.size),
    ("queue_rate_limit_per_second", "Jobs of a queue that may start per second", _rate),
)
"""Per-queue metrics; a queue without a limit has no sample of that limit."""


def _each(family: Family, queues: Sequence[PartitionState], value: Callable[[PartitionState], float | None]) -> Family:
    for queue in queues:
        if (number := value(queue)) is not None:
            family.add(number, **_queue(queue.name))
    return family


class TaskFamilies:
    """Counts and times of tasks as counters, which rise from the first read.

    The server stores them by minute. A completed minute no longer changes, so it is added permanently; the current
    minute is added with its present values.
    """

    def __init__(self, runtime: Runtime, prefix: str) -> None:
        self._run = runtime.run
        self._prefix = prefix
        self._past: dict[tuple[str, str], Moment] = {}
        self._base: dict[str, tuple[int, dict[str, Moment]]] = {}
        """By partition, the first minute that was read, with its values at that time, which are excluded."""
        self._next: dict[str, int] = {}
        """By partition, the first minute that is not added permanently yet."""
        self._first = 0
        """Minute of the first read."""

    def read(self, queues: Iterable[str]) -> list[Family]:
        """Read the jobs that ended in these queues, at most an hour after the last read."""
        present: dict[tuple[str, str], Moment] = {}
        for name in queues:
            with contextlib.suppress(ServerRefused):
                self._read(name, present)
        self._first = self._first or max(self._next.values(), default=1)
        attempts = Family("attempts_total", "counter", "Attempts that ended, by outcome, since this exporter started")
        overran = Family("overruns_total", "counter", "Attempts that ignored their timeout")
        wait = Family("job_wait_seconds", "histogram", "From the enqueue to the first start of a job")
        run = Family("job_run_seconds", "histogram", "How long attempts ran")
        for queue, task in sorted(self._past.keys() | present):
            whole = Moment()
            for part in (self._past, present):
                whole.merge(part.get((queue, task), Moment()))
            for outcome in _OUTCOMES:
                attempts.add(whole.counts[outcome], queue=queue, task=task, outcome=outcome)
            overran.add(whole.overruns, queue=queue, task=task)
            wait.add_times(whole.wait, queue=queue, task=task)
            run.add_times(whole.run, queue=queue, task=task)
        return [attempts, overran, wait, run]

    def _read(self, name: str, present: dict[tuple[str, str], Moment]) -> None:
        keys, queue = QueueKeys(self._prefix, name), base_queue(name)
        task_moments = self._run(metrics.read(keys, "m", _RECENT)) if name in self._next else None
        if task_moments is None or task_moments.last - _RECENT + 1 > self._next[name]:
            task_moments = self._run(metrics.read(keys, "m", 60))
        if not self._first:
            present_now = {
                task: moments[task_moments.last]
                for task, moments in task_moments.tasks.items()
                if task_moments.last in moments
            }
            self._base[name], self._next[name] = (task_moments.last, present_now), task_moments.last
            self._past |= {(queue, task): Moment() for task in task_moments.tasks}  # so that the counters rise from 0
            return
        # all jobs of a queue that appears later have ended since the first read
        self._next.setdefault(name, self._first)
        since, base = self._base.get(name, (0, {}))
        for task, moments in task_moments.tasks.items():
            for number, moment in moments.items():
                if number < self._next[name]:
                    continue
                if number == since and task in base:
                    moment.subtract(base[task])
                (self._past if number < task_moments.last else present).setdefault((queue, task), Moment()).merge(
                    moment
                )
        self._next[name] = max(self._next[name], task_moments.last)


def lock_families(locks: Overview) -> list[Family]:
    """Count locks that are held, and waiters, by kind."""
    held, waiting = Counter[str](), Counter[str]()
    for lock in locks.locks:
        held[lock.kind] += bool(lock.holders)
        waiting[lock.kind] += len(lock.line) + lock.more_waiters
    held_now = gauge("locks_held", "Held locks, by kind")
    waiters = gauge("lock_waiters", "Callers that wait for a lock, by kind")
    for kind in KINDS:
        held_now.add(held[kind], kind=kind)
        waiters.add(waiting[kind], kind=kind)
    return [held_now, waiters, gauge("lock_deadlocks", "Deadlocks among the holders of locks", len(locks.deadlocks))]


class LockFamilies:
    """Reads families of locks and stocks that are in no overview."""

    def __init__(self, runtime: Runtime, prefix: str) -> None:
        self._run = runtime.run
        self._prefix = prefix

    def counts(self) -> list[Family]:
        """Count lost leases, and return the times of hand-overs, by kind."""
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
        units = gauge("stock_units", "Units of a stock by state")
        for queue, name, status, _ in self._run(stock.overview(self._prefix, minutes=0)):
            for state in ("available", "reserved", "sold"):
                units.add(getattr(status, state), **_queue(queue), stock=name, state=state)
        return [units]
