"""The state of a queue and of its partitions in an overview."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import reduce

from msgspec import Struct

from lockwork.protocol.keys import base_queue
from lockwork.protocol.queue.ages import NONE_READY, ReadyAge
from lockwork.protocol.queue.limits import QueueRules
from lockwork.protocol.queue.parked import ParkedTask
from lockwork.protocol.queue.status import QueueStatus, WorkerInfo
from lockwork.queues.combining import combined_rules, combined_status, combined_workers
from lockwork.queues.limits import QueueLimits


class Diagnosis(Struct, frozen=True):
    """The recently dead jobs and the parked jobs of a queue."""

    died: int
    """Number of jobs that died in the last 10 minutes."""
    causes: Counter[str]
    """Errors of the newest dead jobs, each with the task."""
    parked: list[ParkedTask]
    """Tasks whose jobs wait for a worker that has them."""


class PartitionState(Struct, frozen=True):
    """One partition, or a queue without partitions."""

    name: str
    status: QueueStatus
    workers: list[WorkerInfo]
    """Worker processes."""
    rules: QueueRules
    oldest: ReadyAge = NONE_READY
    """Wait time of the oldest ready job."""
    lease_left: float | None = None
    """Seconds until the first lease ends; None without workers."""
    diagnosis: Diagnosis | None = None

    @property
    def sessions(self) -> list[str]:
        """Sessions of its worker processes."""
        return [worker.session for worker in self.workers]

    @property
    def limits(self) -> QueueLimits:
        """Limits in the form that users write."""
        return QueueLimits.of(self.rules)

    @property
    def paused(self) -> datetime | None:
        """Time of the pause; None if it is not paused."""
        return None if self.rules.paused is None else _moment(self.rules.paused)

    @property
    def pauses(self) -> list[tuple[datetime, datetime]]:
        """Last completed pauses, the oldest first."""
        return [(_moment(began), _moment(ended)) for began, ended in self.rules.pauses]


class QueueOverview(Struct, frozen=True):
    """A queue with all its partitions."""

    name: str
    partitions: list[PartitionState]

    def total(self, place: str) -> int:
        """Sum up a place or counter of QueueStatus."""
        return sum(int(getattr(each.status, place)) for each in self.partitions)

    @property
    def status(self) -> QueueStatus:
        """Jobs and counters of all partitions."""
        return combined_status([each.status for each in self.partitions])

    @property
    def limits(self) -> QueueLimits:
        """Total limits of all partitions."""
        return QueueLimits.of(combined_rules([each.rules for each in self.partitions]))

    @property
    def workers(self) -> list[WorkerInfo]:
        """Worker processes of the queue, each once."""
        return combined_workers([worker for each in self.partitions for worker in each.workers])

    @property
    def oldest(self) -> ReadyAge:
        """Wait time of the oldest ready job of all partitions."""
        return reduce(ReadyAge.older, (each.oldest for each in self.partitions), NONE_READY)

    @property
    def paused(self) -> bool:
        """True if all partitions are paused."""
        return all(each.status.paused for each in self.partitions)

    @property
    def partly_paused(self) -> bool:
        """True if some, but not all, partitions are paused."""
        return not self.paused and any(each.status.paused for each in self.partitions)

    @property
    def closed(self) -> bool:
        """True if the queue accepts no new jobs."""
        return all(each.rules.size == 0 for each in self.partitions)

    @property
    def waiting(self) -> int:
        """Number of jobs that `clear` would delete."""
        return self.total("ready") + self.total("scheduled")

    @property
    def places(self) -> list[tuple[str, int]]:
        """Jobs by place, in the order of a bar."""
        return [(place, self.total(place)) for place in ("running", "ready", "scheduled", "blocked")]


def group_partitions(partitions: Iterable[PartitionState]) -> list[QueueOverview]:
    """Return the queues of these partitions."""
    queues: defaultdict[str, list[PartitionState]] = defaultdict(list)
    for partition in partitions:
        queues[base_queue(partition.name)].append(partition)
    return [QueueOverview(name, members) for name, members in queues.items()]


def _moment(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)
