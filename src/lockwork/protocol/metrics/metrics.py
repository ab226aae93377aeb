"""Stored metrics of ended attempts: counts and histograms of times, by task, minute and hour."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from math import log2
from typing import Any, Literal

import msgspec
from msgspec import Struct, field

from lockwork.protocol.effects import Argument, Protocol, script_call
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue.leases import OTHER

Unit = Literal["m", "h"]

PER_OCTAVE = 4
"""Number of buckets per doubling of the time: two times in the same bucket differ by 19 % at most."""
_LAST_BUCKET = 40 * PER_OCTAVE
"""The last bucket, for times of at least 2**40 us (12 days)."""
_LETTERS = {"s": "succeeded", "r": "retried", "d": "dead", "c": "cancelled", "x": "expired"}
_ORDER = (*_LETTERS, "h")
"""The order in metrics/read.lua."""
_TASKS = 50
"""Number of tasks per call to flush."""


def bucket(microseconds: float) -> int:
    """Return the number of a time's bucket: bucket n has times from 2**(n/4) us on, and bucket 0 also shorter times."""
    if microseconds < 2:
        return 0 if microseconds < 1 else int(PER_OCTAVE * log2(microseconds))
    return min(int(PER_OCTAVE * log2(microseconds)), _LAST_BUCKET)


class Times(Struct):
    """Times by bucket, and their sum in microseconds."""

    sum: int = 0
    counts: Counter[int] = field(default_factory=Counter)

    def add(self, microseconds: int, weight: int = 1) -> None:
        """Add a time with the weight of `weight` jobs."""
        self.sum += microseconds * weight
        self.counts[bucket(microseconds)] += weight

    def merge(self, other: Times) -> None:
        """Add the times of another."""
        self.sum += other.sum
        self.counts.update(other.counts)

    def packed(self) -> list[int]:
        """Return the stored form, a list."""
        return [self.sum, *(number for pair in self.counts.items() for number in pair)]

    @classmethod
    def read(cls, packed: list[int]) -> Times:
        """Parse the list of `packed`."""
        return cls(packed[0], Counter(dict(zip(packed[1::2], packed[2::2], strict=True))))


class Moment(Struct):
    """Attempts that ended in one minute or hour: counts by name, and times."""

    counts: Counter[str] = field(default_factory=Counter)
    wait: Times = field(default_factory=Times)
    run: Times = field(default_factory=Times)
    overruns: int = 0
    """Number of attempts that ignored their time-out."""

    def merge(self, other: Moment) -> None:
        """Add another count of the same minute or hour."""
        self.counts.update(other.counts)
        self.wait.merge(other.wait)
        self.run.merge(other.run)
        self.overruns += other.overruns

    def subtract(self, other: Moment) -> None:
        """Subtract an earlier count."""
        self.counts.subtract(other.counts)
        self.overruns -= other.overruns
        for mine, its in ((self.wait, other.wait), (self.run, other.run)):
            mine.sum -= its.sum
            mine.counts.subtract(its.counts)


class TaskMoments(Struct):
    """Metrics of a queue: the number of the last minute or hour, and by task its moments by number."""

    last: int
    tasks: dict[str, dict[int, Moment]]


def flush(
    queue: QueueKeys, session: str, first: int, times: Mapping[str, tuple[Times, Times, int]], patience: float
) -> Protocol[int]:
    """Add the wait times, run times and overruns of tasks to the stored metrics; return the number of calls.

    `first` is the number of the first of these calls. Each call of a session has another number.
    """
    tasks, calls = list(times), 0
    for at in range(0, len(tasks), _TASKS):
        args: list[Argument] = [session, first + calls]
        for task in tasks[at : at + _TASKS]:
            wait, run, overruns = times[task]
            packed = [wait.packed(), run.packed(), overruns][: 3 if overruns else 2]
            args += (task or OTHER, msgspec.msgpack.encode(packed))
        yield script_call("metrics/flush", queue, args, patience)
        calls += 1
    return calls


def read(queue: QueueKeys, unit: Unit, count: int, task: str | None = None) -> Protocol[TaskMoments]:
    """Read the last `count` minutes or hours of a queue's tasks, or of one task; the last is the current one."""
    last: int = 0
    after = ""
    by_task: dict[str, dict[int, Moment]] = {}
    while True:
        _, last, cursor, *pairs = yield script_call("metrics/read", queue, [unit, count, last or "", after, task or ""])
        for at in range(0, len(pairs), 2):
            if moments := dict(_moments(pairs[at + 1], last - count + 1)):
                by_task[pairs[at].decode()] = moments
        after = cursor.decode()
        if not after:
            return TaskMoments(last, by_task)


def _moments(values: list[Any], first: int) -> Iterator[tuple[int, Moment]]:
    moments: dict[int, Moment] = {}
    for at in range(0, len(values), 2):
        step, place = divmod(values[at], len(_ORDER))
        moment = moments.setdefault(first + step, Moment())
        letter, value = _ORDER[place], values[at + 1]
        if letter == "h":
            wait, run, *overruns = msgspec.msgpack.decode(value)
            moment.wait, moment.run, moment.overruns = Times.read(wait), Times.read(run), sum(overruns)
        else:
            moment.counts[_LETTERS[letter]] = int(value)
    yield from moments.items()
