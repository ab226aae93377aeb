"""Reads what several pages show: the queues with their partitions summed up."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeVar, cast

from lockwork.app.lockwork import Lockwork
from lockwork.doctor import Finding, adeadlocks
from lockwork.protocol.keys import QueueKeys, base_queue, partition_number
from lockwork.protocol.queues.status import QueueStatus, WorkerInfo, status_and_rules
from lockwork.queues.limits import QueueLimits

T = TypeVar("T")

_MOST = 1000
"""Partitions that one page reads."""
_FRESH = 15.0
"""Seconds for which deadlocks are remembered."""
_SPAN_FRESH = {"24h": 15.0, "7d": 60.0}
"""The same of metrics by hour."""


@dataclass(frozen=True, slots=True)
class PartitionSummary:
    """One partition as the server has it, or a queue without partitions."""

    name: str
    status: QueueStatus
    workers: list[WorkerInfo]
    limits: QueueLimits
    paused: datetime | None
    """Since when it is paused."""
    pauses: list[tuple[datetime, datetime]]
    """The last pauses that are over, the oldest first."""


@dataclass(frozen=True, slots=True)
class QueueSummary:
    """A queue with all of its partitions."""

    name: str
    partitions: list[PartitionSummary]

    def total(self, place: str) -> int:
        """Add up a place or counter of QueueStatus."""
        return sum(int(getattr(each.status, place)) for each in self.partitions)

    @property
    def paused(self) -> bool:
        """True if all of it is paused."""
        return all(each.status.paused for each in self.partitions)

    @property
    def partly_paused(self) -> bool:
        """True if some of its partitions are paused, not all."""
        return not self.paused and any(each.status.paused for each in self.partitions)

    @property
    def closed(self) -> bool:
        """True if it takes no new jobs."""
        return all(each.limits.size == 0 for each in self.partitions)

    @property
    def workers(self) -> list[WorkerInfo]:
        """Its worker processes, each once."""
        return list({worker.session: worker for each in self.partitions for worker in each.workers}.values())

    @property
    def waiting(self) -> int:
        """Jobs that `clear` would delete."""
        return self.total("ready") + self.total("scheduled")

    @property
    def places(self) -> list[tuple[str, int]]:
        """Jobs by place, in the order of a bar."""
        return [(place, self.total(place)) for place in ("running", "ready", "scheduled", "blocked")]


async def read_partition(lw: Lockwork, name: str) -> PartitionSummary:
    """Read one partition."""
    status, workers, rules = await lw.runtime.arun(status_and_rules(QueueKeys(lw.config.prefix, name)))
    since = None if rules.paused is None else _moment(rules.paused)
    pauses = [(_moment(began), _moment(ended)) for began, ended in rules.pauses]
    return PartitionSummary(name, status, workers, QueueLimits.of(rules), since, pauses)


def _moment(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


async def read_queues(lw: Lockwork, names: Sequence[str] | None = None) -> list[QueueSummary]:
    """Read all queues, or the partitions that are named."""
    if names is None:
        names = await known_queues(lw)
    found = await asyncio.gather(*(read_partition(lw, name) for name in names[:_MOST]))
    queues: defaultdict[str, list[PartitionSummary]] = defaultdict(list)
    for partition in found:
        queues[base_queue(partition.name)].append(partition)
    return [QueueSummary(name, partitions) for name, partitions in queues.items()]


async def known_queues(lw: Lockwork) -> list[str]:
    """Return the queues and partitions that ever had a job, or for which an app has a task."""
    found, apps = await asyncio.gather(lw.aqueues(), lw.aapps())
    own = {name for queue in lw.registry.queues() for name in lw.config.partitions.names(queue)}
    announced = {
        f"{task.queue}/{number}" if many else task.queue
        for app in apps
        for task in app.tasks
        for many in [app.partitions.get(task.queue, 0)]
        for number in range(many or 1)
    }
    return sorted({*found, *own, *announced}, key=lambda name: (base_queue(name), partition_number(name)))


class KnownDeadlocks:
    """The deadlocks of the server, which are read anew now and then: that reads all locks."""

    def __init__(self) -> None:
        self._found: list[Finding] = []
        self._until = 0.0

    async def read(self, lw: Lockwork) -> list[Finding]:
        """Return the deadlocks of the last seconds."""
        if (now := time.monotonic()) >= self._until:
            self._until = now + _FRESH
            self._found = await adeadlocks(lw)
        return self._found


class KnownMetrics:
    """Metrics by hour, which change little in a minute, and of which a week costs the server much."""

    def __init__(self) -> None:
        self._found: dict[Hashable, tuple[float, object]] = {}

    async def read(self, span: str, what: Hashable, read: Callable[[], Awaitable[T]]) -> T:
        """Return what was read of this span in the last seconds, or read it."""
        lasts = _SPAN_FRESH.get(span)
        if lasts is None:
            return await read()
        now = time.monotonic()
        self._found = {key: found for key, found in self._found.items() if found[0] > now}
        if (span, what) not in self._found:
            self._found[span, what] = (now + lasts, await read())
        return cast("T", self._found[span, what][1])


async def read_queue(lw: Lockwork, name: str) -> QueueSummary | None:
    """Read one queue, or one partition of it; None if the server has no such queue."""
    names = [each for each in await known_queues(lw) if name in (each, base_queue(each))]
    if not names:
        return None
    found = await read_queues(lw, names)
    return QueueSummary(name, found[0].partitions)
