"""Metrics of queues and tasks: counts and times by minute or hour, over all workers and partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from math import ceil
from typing import Literal, get_args

from msgspec import Struct
from msgspec.structs import replace

from lockwork.errors import ConfigError
from lockwork.protocol.effects import Protocol, concurrently
from lockwork.protocol.index import index
from lockwork.protocol.keys import QueueKeys, base_queue, checked_queue
from lockwork.protocol.metrics import metrics
from lockwork.protocol.metrics.metrics import PER_OCTAVE, Moment, Times, Unit
from lockwork.protocol.queue.ages import NONE_READY, ReadyAge, ready_age

Span = Literal["15m", "1h", "24h", "7d"]
_SPANS: dict[str, tuple[Unit, int]] = {"15m": ("m", 15), "1h": ("m", 60), "24h": ("h", 24), "7d": ("h", 168)}
_SECONDS: dict[Unit, int] = {"m": 60, "h": 3600}


class Histogram:
    """A histogram of durations, with buckets that are 19 % wide.

    A worker process measures about 200 jobs of each task per second; beyond that, it weights each measurement. So
    `count` is close to the number of jobs, but only the counts of a `MetricPoint` are exact.
    """

    __slots__ = ("_times",)

    def __init__(self, times: Times) -> None:
        self._times = times

    @property
    def count(self) -> int:
        """Number of times."""
        return self._times.counts.total()

    @property
    def sum(self) -> float:
        """Sum of all durations, in seconds."""
        return self._times.sum / 1e6

    def quantile(self, q: float) -> float | None:
        """Return the time in seconds that a share `q` (0 to 1) does not exceed, within 10 % of the exact value.

        None without times. Times below 1 us or above 12 days count as these limits.
        """
        if not 0 <= q <= 1:
            raise ConfigError(f"a quantile is from 0 to 1, not {q!r}")
        remaining = q * self.count
        for number in sorted(self._times.counts):
            remaining -= self._times.counts[number]
            if remaining <= 0:
                return float(2 ** ((number + 0.5) / PER_OCTAVE)) / 1e6
        return None

    def buckets(self) -> list[tuple[float, int]]:
        """Return the upper bound in seconds and the count of each bucket in use; the shortest first."""
        return [(2 ** ((number + 1) / PER_OCTAVE) / 1e6, count) for number, count in sorted(self._times.counts.items())]

    def __repr__(self) -> str:
        return f"Histogram(count={self.count}, sum={self.sum:.6g})"


class MetricPoint(Struct, frozen=True):
    """The jobs and attempts that ended in the `seconds` from `at`.

    `failed` counts failed attempts: `retried` if the job runs again, `dead` if it moved to the dead set. `wait` is the
    time from the enqueue to the first start, `run` the time of each attempt. `overran` counts attempts that ignored
    their `timeout`: they returned a value anyway, or ran for 10 s more.
    """

    at: datetime
    seconds: int
    succeeded: int
    failed: int
    retried: int
    dead: int
    cancelled: int
    expired: int
    wait: Histogram
    run: Histogram
    overran: int = 0


class MetricSeries(Struct, frozen=True):
    """Points of a span, the oldest first, without gaps; the last one is still in progress. `total` is their sum."""

    points: list[MetricPoint]
    total: MetricPoint


class Activity(Struct, frozen=True):
    """The moments of a span by partition and task with ended jobs; `last` is the number of the latest moment."""

    unit: Unit
    count: int
    last: int
    tasks: Mapping[tuple[str, str], Mapping[int, Moment]]

    def latest(self, count: int) -> Activity:
        """Return the last `count` moments; the last of them is still in progress."""
        return replace(self, count=min(count, self.count))

    def between(self, begin: datetime, end: datetime) -> Activity:
        """Return the moments that begin before `end` and end after `begin`; at least one."""
        length, oldest = _SECONDS[self.unit], self.last - self.count + 1
        last = min(self.last, max(oldest, ceil(end.timestamp() / length) - 1))
        first = min(last, max(oldest, int(begin.timestamp() // length)))
        return replace(self, count=last - first + 1, last=last)

    def of(self, queue: str) -> Activity:
        """Return the moments of a queue, or of one partition."""
        own = {key: moments for key, moments in self.tasks.items() if queue in (key[0], base_queue(key[0]))}
        return replace(self, tasks=own)

    def series(self) -> MetricSeries:
        """Add up the tasks, moment by moment."""
        sums: dict[int, Moment] = {}
        for moments in self.tasks.values():
            for number in self._numbers & moments.keys():
                sums.setdefault(number, Moment()).merge(moments[number])
        points = [_point(sums.get(number, Moment()), number, self.unit, 1) for number in sorted(self._numbers)]
        return MetricSeries(points, _total(sums.values(), min(self._numbers), self.unit, self.count))

    def by_task(self) -> dict[tuple[str, str], MetricPoint]:
        """Sum up the moments of each task, by queue and task; the partitions of a queue are summed."""
        sums: dict[tuple[str, str], list[Moment]] = {}
        for (name, task), moments in self.tasks.items():
            if some := [moments[number] for number in self._numbers & moments.keys()]:
                sums.setdefault((base_queue(name), task), []).extend(some)
        return {key: _total(some, min(self._numbers), self.unit, self.count) for key, some in sums.items()}

    @property
    def _numbers(self) -> set[int]:
        return set(range(self.last - self.count + 1, self.last + 1))


def activity(
    prefix: str, queue: str | None, task: str | None, span: Span, names: Sequence[str] | None = None
) -> Protocol[Activity]:
    """Read the moments of one queue or all, and of one task or all; names: all queues, if known."""
    unit, count = _unit(span)
    if names is None:
        names = yield from partitions(prefix, queue)
    read = yield from concurrently([metrics.read(QueueKeys(prefix, name), unit, count, task) for name in names])
    last = max((moments.last for moments in read), default=0) or (yield from _now(prefix, unit))
    return Activity(
        unit,
        count,
        last,
        {
            (name, each): moments.tasks[each]
            for name, moments in zip(names, read, strict=True)
            for each in moments.tasks
        },
    )


def series(prefix: str, queue: str | None, task: str | None, span: Span) -> Protocol[MetricSeries]:
    """Read the points of one queue or all, and of one task or all."""
    span_activity = yield from activity(prefix, queue, task, span)
    return span_activity.series()


def minutes(prefix: str, names: Sequence[str]) -> Protocol[dict[str, list[MetricPoint]]]:
    """Read the last 15 minutes of queues and partitions, the oldest first; the last one is still in progress."""
    unit, count = _unit("15m")
    read = yield from concurrently([metrics.read(QueueKeys(prefix, name), unit, count) for name in names])
    return {
        name: Activity(unit, count, moments.last, {(name, task): moments.tasks[task] for task in moments.tasks})
        .series()
        .points
        for name, moments in zip(names, read, strict=True)
    }


def speed(points: Sequence[MetricPoint]) -> tuple[float, float]:
    """Return the succeeded jobs and the failed attempts per second, in the last two points."""
    before, last = points[-2:]
    # this clock may differ from the server's
    passed = min(max(0.0, (datetime.now(UTC) - last.at).total_seconds()), last.seconds)
    seconds = before.seconds + passed
    return (before.succeeded + last.succeeded) / seconds, (before.failed + last.failed) / seconds


def by_task(prefix: str, span: Span) -> Protocol[dict[tuple[str, str], MetricPoint]]:
    """Read the jobs that ended in the span, by queue and task; the partitions of a queue are summed."""
    span_activity = yield from activity(prefix, None, None, span)
    return span_activity.by_task()


def queue_ages(prefix: str) -> Protocol[dict[str, ReadyAge]]:
    """Read the wait time of the oldest ready job of each queue."""
    ages: dict[str, ReadyAge] = {}
    names = yield from partitions(prefix, None)
    read = yield from concurrently([ready_age(QueueKeys(prefix, name)) for name in names])
    for name, age in zip(names, read, strict=True):
        queue = base_queue(name)
        ages[queue] = age.older(ages.get(queue, NONE_READY))
    return ages


def known_ages(ages: Mapping[str, ReadyAge]) -> dict[str, float | None]:
    """Return the ages of queues in seconds; None if only part of the waiting jobs could be read."""
    return {queue: age.seconds if age.known else None for queue, age in ages.items()}


def partitions(prefix: str, queue: str | None) -> Protocol[list[str]]:
    """Return the queues, or the partitions of one queue, that had a job on this server or have a worker."""
    if queue is not None and "/" in checked_queue(queue):
        return [queue]
    names = yield from index.queues(prefix)
    return names if queue is None else [name for name in names if base_queue(name) == queue]


def buckets(span: Span) -> tuple[int, int]:
    """Return the length of a bucket of this span in seconds, and the number of buckets."""
    unit, count = _unit(span)
    return _SECONDS[unit], count


def _unit(span: str) -> tuple[Unit, int]:
    if span not in _SPANS:
        raise ConfigError(f"a span of metrics is one of {', '.join(get_args(Span))}, not {span!r}")
    return _SPANS[span]


def _now(prefix: str, unit: Unit) -> Protocol[int]:
    """Return the number of the current minute or hour, on a server without queues."""
    moments = yield from metrics.read(QueueKeys(prefix, "default"), unit, 1, "")
    return moments.last


def _total(moments: Iterable[Moment], first: int, unit: Unit, count: int) -> MetricPoint:
    whole = Moment()
    for moment in moments:
        whole.merge(moment)
    return _point(whole, first, unit, count)


def _point(moment: Moment, number: int, unit: Unit, count: int) -> MetricPoint:
    seconds, counts = _SECONDS[unit], moment.counts
    return MetricPoint(
        at=datetime.fromtimestamp(number * seconds, UTC),
        seconds=seconds * count,
        succeeded=counts["succeeded"],
        failed=counts["retried"] + counts["dead"],
        retried=counts["retried"],
        dead=counts["dead"],
        cancelled=counts["cancelled"],
        expired=counts["expired"],
        wait=Histogram(moment.wait),
        run=Histogram(moment.run),
        overran=moment.overruns,
    )
