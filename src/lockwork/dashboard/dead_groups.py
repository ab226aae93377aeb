"""Groups of dead jobs: counted in bounded steps, the newest jobs first, and then kept up to date."""

from __future__ import annotations

import asyncio
import time
from array import array
from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise

from msgspec import Struct, field

from lockwork.app.lockwork import Lockwork
from lockwork.protocol.dead.dead import HEAD, PAGE, Cursor, DeadJob, Filter, Reading, read_some
from lockwork.protocol.keys import QueueKeys, base_queue
from lockwork.protocol.queue.records import raw

_STEP = 1000
"""Number of dead jobs that a step reads, across all partitions."""
_LEAST = 10
"""Minimum number of dead jobs that it reads from each partition."""
_AT_ONCE = 64
"""Number of partitions to read concurrently."""
_REST = 20
"""After jobs have left, the next count begins when this multiple of its duration has passed."""
_KEPT = 16
"""Maximum number of remembered counts."""
_BARS = 24
"""Number of time intervals in a sparkline."""
_LAST_MS = 253_402_300_799_000.0
"""The end of the year 9999: other programs may have stored any number as a time."""

Kind = tuple[str, str, str]
"""Queue, task and type of error."""
Matches = Callable[[DeadJob], bool]


class Group(Struct):
    """Dead jobs of one queue with the same task and type of error."""

    kind: Kind
    example: DeadJob
    """Newest job of the group."""
    partition: str
    """Partition of the example."""
    deaths: array[float] = field(default_factory=lambda: array("d"))
    """Times of death, in negative milliseconds since 1970, ascending: the newest first."""
    traceback: str | None = None
    """End of the example's traceback, once read."""

    @property
    def count(self) -> int:
        """Number of jobs read so far."""
        return len(self.deaths)

    @property
    def first(self) -> datetime:
        """Time of the first death."""
        return _moment(-self.deaths[-1])

    @property
    def last(self) -> datetime:
        """Time of the last death."""
        return _moment(-self.deaths[0])

    def spark(self, since: datetime, until: datetime) -> list[float | None]:
        """Return the number of deaths in each interval of a time."""
        begin, end = since.timestamp() * 1000, until.timestamp() * 1000
        edges = [begin + (end - begin) * bar / _BARS for bar in range(1, _BARS)]
        later = [self.count, *(bisect_right(self.deaths, -edge) for edge in edges), 0]
        return [float(before - after) for before, after in pairwise(later)]


class _GroupCount(Struct):
    """Groups of the jobs in some partitions that died before a given time."""

    groups: dict[Kind, Group] = field(default_factory=dict[Kind, Group])
    counted: Counter[str] = field(default_factory=Counter[str])
    """Number of jobs read from each partition, including those without a match."""
    until: dict[str, int] = field(default_factory=dict[str, int])
    """Time (ms) before which the jobs of a partition are counted."""

    def add(self, partition: str, job: DeadJob, matches: Matches) -> None:
        self.counted[partition] += 1
        if matches(job):
            kind = (base_queue(partition), job.call.task or "", job.error.type)
            group = self.groups.setdefault(kind, Group(kind, job, partition))
            group.deaths.append(-float(job.died))

    def merge(self, newer: _GroupCount) -> None:
        """Add the jobs that died later."""
        self.counted += newer.counted
        self.until |= newer.until
        for kind, group in newer.groups.items():
            if kind in self.groups:
                group.deaths = array("d", sorted(group.deaths + self.groups[kind].deaths))
            self.groups[kind] = group


class _Source(Struct):
    """Jobs of one partition that died in a span of time."""

    name: str
    span: Filter
    cursor: Cursor
    begun: bool = False
    all_read: bool = False
    waiting: deque[DeadJob] = field(default_factory=deque[DeadJob])
    """Jobs that were read, but are older than unread jobs of other partitions."""


class _Pass:
    """One pass over jobs that died in a span of time, the newest first across all partitions."""

    def __init__(self, sources: Sequence[_Source], present: Mapping[str, int], whole: bool) -> None:
        self.tally = _GroupCount(until={source.name: int(source.cursor.at) for source in sources})
        self.present = present
        """Number of jobs in each partition at the start, of any age."""
        self.whole = whole
        """True if the pass reads all jobs; otherwise it reads the deaths since the last pass."""
        self.spent = 0.0
        """Seconds that the pass has spent reading."""
        self._sources = sources
        self._size = min(PAGE, max(_LEAST, _STEP // max(1, len(sources))))

    @property
    def ended(self) -> bool:
        return all(source.all_read and not source.waiting for source in self._sources)

    async def read_on(self, lw: Lockwork, matches: Matches, until: float) -> None:
        """Read one step, and more until the end or until this time."""
        began = time.perf_counter()
        while not self.ended:
            some = [source for source in self._sources if not source.all_read and not source.waiting]
            # an unread partition may have the newest jobs
            some = sorted(some, key=lambda source: source.begun)[:_AT_ONCE]
            readings = await asyncio.gather(*(self._read(lw, source) for source in some))
            for source, reading in zip(some, readings, strict=True):
                source.begun, source.all_read, source.cursor = True, not reading.more, reading.cursor
                source.waiting += reading.jobs
            self._count(matches)
            if all(source.begun for source in self._sources) and time.perf_counter() > until:
                break
        self.spent += time.perf_counter() - began

    async def _read(self, lw: Lockwork, source: _Source) -> Reading:
        keys = QueueKeys(lw.config.prefix, source.name)
        return await lw.runtime.arun(read_some(keys, source.span, source.cursor, self._size, HEAD, newest=True))

    def _count(self, matches: Matches) -> None:
        """Count the jobs that are newer than all unread ones."""
        rest = [source for source in self._sources if not source.all_read]
        if not all(source.begun for source in rest):
            return
        oldest = max(((float(source.cursor.died), source.cursor.id) for source in rest), default=(float("-inf"), b""))
        newer: list[tuple[str, DeadJob]] = []
        for source in self._sources:
            while source.waiting and _order(source.waiting[0]) >= oldest:
                newer.append((source.name, source.waiting.popleft()))
        for name, job in sorted(newer, key=lambda each: _order(each[1]), reverse=True):
            self.tally.add(name, job, matches)


class DeadGroups:
    """Groups of the matching dead jobs of some partitions, counted by several requests and then cached.

    The first pass reads all jobs; each later pass reads only new deaths. If the server's counters show that counted
    jobs have left the dead set, the next pass reads all again.
    """

    def __init__(self) -> None:
        self.left: int = 0
        """Number of counted jobs that have left the dead set."""
        self.missing: int = 0
        """Number of dead jobs that are missing from the counts after a complete pass."""
        self._whole: _GroupCount | None = None
        self._pass: _Pass | None = None
        self.since: datetime = _moment(0)
        """Start of the last complete pass; jobs counted there have left later."""
        self._present = 0
        self._all_read_at = 0.0
        self._per_job = 0.0
        self._busy = False

    @property
    def groups(self) -> list[Group]:
        """Groups, sorted by their last deaths, the newest first."""
        return sorted(self._shown.groups.values(), key=lambda group: group.deaths[0])

    @property
    def counted(self) -> int:
        """Number of jobs that are in the groups, or do not match."""
        return self._shown.counted.total()

    @property
    def read_again(self) -> int | None:
        """Number of jobs read again so far; None outside a second pass."""
        reading = self._pass if self._whole is not None else None
        return reading.tally.counted.total() if reading is not None and reading.whole else None

    @property
    def whole(self) -> bool:
        """True if all jobs have been read."""
        return self._whole is not None

    @property
    def exact(self) -> bool:
        """True if the counts equal the server's counters."""
        return self.whole and not self.left and not self.missing and self._pass is None

    @property
    def reading(self) -> bool:
        """True if there is more to read."""
        return not self.whole or self._pass is not None

    @property
    def as_of(self) -> datetime:
        """Time of the counts."""
        return _moment(min(self._shown.until.values(), default=time.time() * 1000))

    @property
    def _shown(self) -> _GroupCount:
        return self._whole or (self._pass.tally if self._pass is not None else _GroupCount())

    async def read_on(self, lw: Lockwork, partitions: Sequence[str], matches: Matches, seconds: float) -> None:
        """Continue reading for `seconds`; a concurrent request does not wait for it."""
        if self._busy:
            return
        self._busy = True
        until = time.perf_counter() + seconds
        try:
            while True:
                if self._pass is None:
                    self._pass = await self._begin(lw, partitions)
                reading = self._pass
                await reading.read_on(lw, matches, until)
                if not reading.ended:
                    return
                self._take(reading)
                # the next pass detects jobs that left during a complete pass
                if not reading.whole and (not self._must_read_all() or time.perf_counter() > until):
                    return
        finally:
            self._busy = False

    async def _begin(self, lw: Lockwork, partitions: Sequence[str]) -> _Pass:
        whole = None if self._must_read_all() else self._whole
        names = [*dict.fromkeys([*partitions, *(whole.until if whole else ())])]
        present: dict[str, int] = {}
        sources: list[_Source] = []
        for at in range(0, len(names), _AT_ONCE):
            some = names[at : at + _AT_ONCE]
            readings = await asyncio.gather(*(self._start(lw, name) for name in some))
            for name, reading in zip(some, readings, strict=True):
                present[name], now = reading.count, int(reading.cursor.at)
                since = whole.until.get(name) if whole else None
                # more jobs may die in the current millisecond
                span = Filter(least_age=1, most_age=None if since is None else max(0, now - since))
                sources.append(_Source(name, span, reading.cursor))
        return _Pass(sources, present, whole is None)

    async def _start(self, lw: Lockwork, name: str) -> Reading:
        keys = QueueKeys(lw.config.prefix, name)
        return await lw.runtime.arun(read_some(keys, Filter(least_age=1), Cursor(), 0, 0, newest=True))

    def _must_read_all(self) -> bool:
        if self._whole is None:
            return True
        rests = 0.0 if self._present <= _STEP else _REST * self._per_job * self._present
        return self.left + self.missing > 0 and time.monotonic() >= self._all_read_at + rests

    def _take(self, reading: _Pass) -> None:
        """Publish the results of a pass, and compare them with the server's counters at its start."""
        self._pass = None
        if reading.whole or self._whole is None:
            self._whole = reading.tally
            self.since = self.as_of
            self._all_read_at = time.monotonic()
            self._per_job = reading.spent / max(1, reading.tally.counted.total())
            self.left = self.missing = 0
            return
        self._whole.merge(reading.tally)
        self._present = sum(reading.present.values())
        differences = [self._whole.counted[name] - count for name, count in reading.present.items()]
        self.left = sum(max(0, each) for each in differences)
        self.missing = sum(max(0, -each) for each in differences)

    def removed(self, kind: Kind, by_partition: Mapping[str, int]) -> bool:
        """Remove a group whose jobs were retried or deleted; return False if other jobs were affected, too."""
        group = None if self._whole is None or self._pass is not None else self._whole.groups.get(kind)
        if self._whole is None or group is None or group.count != sum(by_partition.values()):
            return False
        del self._whole.groups[kind]
        self._whole.counted -= Counter(by_partition)
        return True


class KnownDeadGroups:
    """Caches the counts of recent pages, by their filters."""

    def __init__(self) -> None:
        self._found: dict[Hashable, DeadGroups] = {}

    def get(self, key: Hashable) -> DeadGroups:
        """Return the count of this key; create it if necessary."""
        entry = self._found.pop(key) if key in self._found else DeadGroups()
        self._found[key] = entry
        for oldest in list(self._found)[:-_KEPT]:
            del self._found[oldest]
        return entry

    def removed(self, kind: Kind, by_partition: Mapping[str, int]) -> None:
        """Remove a group whose jobs were retried or deleted; counts that become inexact are counted again."""
        self._found = {key: entry for key, entry in self._found.items() if entry.removed(kind, by_partition)}


def _order(job: DeadJob) -> tuple[float, bytes]:
    return float(job.died), raw(job.id)


def _moment(ms: float) -> datetime:
    return datetime.fromtimestamp(min(max(ms, 0.0), _LAST_MS) / 1000, UTC)
