"""Metrics of queues and tasks: counts and times by minute or hour, over all workers and partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, get_args

from lockwork.errors import ConfigError
from lockwork.protocol.effects import Protocol, concurrently
from lockwork.protocol.keys import QueueKeys, base_queue, checked_queue
from lockwork.protocol.queues import browse, metrics, sessions
from lockwork.protocol.queues.metrics import PER_OCTAVE, Moment, Times, Unit
from lockwork.telemetry.families import Backlog

Span = Literal["15m", "1h", "24h", "7d"]
_SPANS: dict[str, tuple[Unit, int]] = {"15m": ("m", 15), "1h": ("m", 60), "24h": ("h", 24), "7d": ("h", 168)}
_SECONDS: dict[Unit, int] = {"m": 60, "h": 3600}


class Histogram:
    """A histogram of durations, with buckets that are 19 % wide.

    A worker process measures about 200 jobs a second of each task; if there are more, it weights each measurement. So
    `count` is close to the number of jobs, but only the counts of a `Point` are exact.
    """

    __slots__ = ("_times",)

    def __init__(self, times: Times) -> None:
        self._times = times

    @property
    def count(self) -> int:
        """The number of times."""
        return self._times.counts.total()

    @property
    def sum(self) -> float:
        """The sum of all durations, in seconds."""
        return self._times.sum / 1e6

    def quantile(self, q: float) -> float | None:
        """Return the time, in seconds, that a share `q` (0 to 1) does not exceed; it is within 10 % of the true one.

        None if there are no times. Times below 1 us and above 12 days are taken as such.
        """
        if not 0 <= q <= 1:
            raise ConfigError(f"a quantile is from 0 to 1, not {q!r}")
        left = q * self.count
        for number in sorted(self._times.counts):
            left -= self._times.counts[number]
            if left <= 0:
                return float(2 ** ((number + 0.5) / PER_OCTAVE)) / 1e6
        return None

    def buckets(self) -> list[tuple[float, int]]:
        """Return the upper end of each bucket in use, in seconds, and how many times are in it; the shortest first."""
        return [(2 ** ((number + 1) / PER_OCTAVE) / 1e6, count) for number, count in sorted(self._times.counts.items())]

    def __repr__(self) -> str:
        return f"Histogram(count={self.count}, sum={self.sum:.6g})"


@dataclass(frozen=True, slots=True)
class Point:
    """The jobs and attempts that ended in the `seconds` from `at` on.

    `failed` are the attempts that failed, `retried` and `dead` together: those after which the job runs again, and
    those after which it went to the dead set. `wait` is the time from the enqueue to the first start, `run` that of
    each attempt.
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


@dataclass(frozen=True, slots=True)
class Series:
    """Points of a span, the oldest first, without gaps; the last one is still in progress. `total` is their sum."""

    points: list[Point]
    total: Point


def series(prefix: str, queue: str | None, task: str | None, span: Span) -> Protocol[Series]:
    """Read the points of a queue or of all, and of a task or of all."""
    unit, count = _unit(span)
    last, moments = 0, dict[int, Moment]()
    names = yield from partitions(prefix, queue)
    for found in (
        yield from concurrently([metrics.read(QueueKeys(prefix, name), unit, count, task) for name in names])
    ):
        last = max(last, found.last)
        for each in found.tasks.values():
            _merge(moments, each)
    if not last:
        last = yield from _now(prefix, unit)
    numbers = range(last - count + 1, last + 1)
    points = [_point(moments.get(number, Moment()), number, unit, 1) for number in numbers]
    return Series(points, _total([moments[number] for number in numbers if number in moments], numbers[0], unit, count))


def by_task(prefix: str, span: Span) -> Protocol[dict[tuple[str, str], Point]]:
    """Read what ended in the span, by queue and task; the partitions of a queue are one."""
    unit, count = _unit(span)
    moments: dict[tuple[str, str], list[Moment]] = {}
    first = 0
    names = yield from partitions(prefix, None)
    read = yield from concurrently([metrics.read(QueueKeys(prefix, name), unit, count) for name in names])
    for name, found in zip(names, read, strict=True):
        first = first or found.last - count + 1
        for task, each in found.tasks.items():
            moments.setdefault((base_queue(name), task), []).extend(each.values())
    return {key: _total(some, first, unit, count) for key, some in moments.items()}


def queue_ages(prefix: str) -> Protocol[dict[str, float]]:
    """Read how long the oldest ready job of each queue has waited, in seconds, about; 0 when none is ready."""
    ages: dict[str, float] = {}
    names = yield from partitions(prefix, None)
    heads = yield from concurrently([sessions.queue_head(QueueKeys(prefix, name)) for name in names])
    for name, head in zip(names, heads, strict=True):
        queue = base_queue(name)
        ages[queue] = max(ages.get(queue, 0.0), Backlog().age(head))
    return ages


def partitions(prefix: str, queue: str | None) -> Protocol[list[str]]:
    """Return the queues, or the partitions of one queue, that had a job on this server or have a worker."""
    if queue is not None and "/" in checked_queue(queue):
        return [queue]
    names = yield from browse.find(prefix)
    return names if queue is None else [name for name in names if base_queue(name) == queue]


def _unit(span: str) -> tuple[Unit, int]:
    if span not in _SPANS:
        raise ConfigError(f"a span of metrics is one of {', '.join(get_args(Span))}, not {span!r}")
    return _SPANS[span]


def _now(prefix: str, unit: Unit) -> Protocol[int]:
    """The number of this minute or hour on a server without queues."""
    found = yield from metrics.read(QueueKeys(prefix, "default"), unit, 1, "")
    return found.last


def _merge(moments: dict[int, Moment], others: Mapping[int, Moment]) -> None:
    for number, other in others.items():
        moments.setdefault(number, Moment()).merge(other)


def _total(moments: Iterable[Moment], first: int, unit: Unit, count: int) -> Point:
    whole = Moment()
    for moment in moments:
        whole.merge(moment)
    return _point(whole, first, unit, count)


def _point(moment: Moment, number: int, unit: Unit, count: int) -> Point:
    seconds, counts = _SECONDS[unit], moment.counts
    return Point(
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
    )
