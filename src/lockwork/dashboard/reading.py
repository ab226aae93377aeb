"""Reads what several pages show: the queues with their partitions summed up."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from lockwork.app.lockwork import Lockwork
from lockwork.protocol.keys import QueueKeys, base_queue, partition_number
from lockwork.protocol.queues.status import QueueStatus, WorkerInfo, status_and_rules
from lockwork.queues.limits import QueueLimits

_MOST = 1000
"""Partitions that one page reads."""


@dataclass(frozen=True, slots=True)
class PartitionSummary:
    """One partition as the server has it, or a queue without partitions."""

    name: str
    status: QueueStatus
    workers: list[WorkerInfo]
    limits: QueueLimits


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
    return PartitionSummary(name, status, workers, QueueLimits.of(rules))


async def read_queues(lw: Lockwork, names: Sequence[str] | None = None) -> list[QueueSummary]:
    """Read all queues that ever had a job, or are known to the app, or the partitions that are named."""
    if names is None:
        known = {name for queue in lw.registry.queues() for name in lw.config.partitions.names(queue)}
        names = sorted({*await lw.aqueues(), *known}, key=lambda name: (base_queue(name), partition_number(name)))
    found = await asyncio.gather(*(read_partition(lw, name) for name in names[:_MOST]))
    queues: defaultdict[str, list[PartitionSummary]] = defaultdict(list)
    for partition in found:
        queues[base_queue(partition.name)].append(partition)
    return [QueueSummary(name, partitions) for name, partitions in queues.items()]


async def read_queue(lw: Lockwork, name: str) -> QueueSummary | None:
    """Read one queue, or one partition of it; None if it never had a job."""
    names = [each for each in await lw.aqueues() if each == name or base_queue(each) == name]
    if not names and name in lw.registry.queues():
        names = list(lw.config.partitions.names(name))
    if not names:
        return None
    found = await read_queues(lw, sorted(names, key=partition_number))
    return QueueSummary(name, found[0].partitions)
