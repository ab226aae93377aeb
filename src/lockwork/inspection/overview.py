"""One concurrent read of the state of all queues, workers, apps and locks; command line, dashboard, doctor and
exporter show parts of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from enum import Flag, auto
from typing import Any, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from lockwork.errors import ServerRefused
from lockwork.inspection.lock_cache import LockCache
from lockwork.inspection.queue_state import Diagnosis, PartitionState, QueueOverview, group_partitions
from lockwork.protocol.dead import dead
from lockwork.protocol.effects import Protocol, concurrently, script_call
from lockwork.protocol.index import index
from lockwork.protocol.keys import QueueKeys, base_queue, partition_number
from lockwork.protocol.locks.overview import Overview
from lockwork.protocol.queue import status as queue_status
from lockwork.protocol.queue.ages import NONE_READY, Backlog, age_at
from lockwork.protocol.queue.parked import parked_tasks
from lockwork.protocol.queue.sessions import queue_head
from lockwork.runtime.runtime import Runtime
from lockwork.workers import App, RunningVersions, Worker, read_apps, read_workers

RECENT = 600
"""Maximum age in seconds of recent dead jobs."""
NEWEST = 20
"""Number of dead jobs of a queue that are read for their errors."""
MOST_DIAGNOSED = 200
"""Maximum queues and partitions whose dead and parked jobs are read."""
_BATCH = 100
"""Number of queues and partitions that are read together."""
_EXPECTED = 100
"""Maximum worker processes of one queue that are assumed to serve the next one, too."""
T = TypeVar("T")


class Part(Flag):
    """The parts of an overview; without parts, it has only the names of queues."""

    QUEUES = auto()
    """Jobs by place, counters, worker processes and limits of each queue and partition."""
    AGES = auto()
    """Wait time of the oldest ready job of each queue."""
    LEASES = auto()
    """End of the first lease of each queue."""
    DIAGNOSIS = auto()
    """Recently dead jobs, and parked jobs."""
    WORKERS = auto()
    APPS = auto()
    WAITED_LOCKS = auto()
    """The locks that have waiters, which suffices to find deadlocks; read at most every 15 s."""
    ALL_LOCKS = auto()


NAMES = Part(0)
_OF_QUEUES = Part.QUEUES | Part.AGES | Part.LEASES | Part.DIAGNOSIS
_OF_LOCKS = Part.WAITED_LOCKS | Part.ALL_LOCKS


class SystemOverview(Struct, frozen=True):
    """The requested state of all queues, workers, apps and locks."""

    names: list[str]
    """Queues and partitions."""
    partitions: list[PartitionState] = field(default_factory=list[PartitionState])
    workers: list[Worker] = field(default_factory=list[Worker])
    apps: list[App] = field(default_factory=list[App])
    """All versions of each app."""
    locks: Overview | None = None
    """Locks; None if this user may not read them."""
    refused: Part = NAMES
    """Parts that this user may not read."""
    embedded: str = ""
    """Describes the server if it is the embedded one."""

    @property
    def queues(self) -> list[QueueOverview]:
        """Queues with their partitions."""
        return group_partitions(self.partitions)

    @property
    def diagnosed(self) -> list[tuple[PartitionState, Diagnosis]]:
        """Queues and partitions whose dead and parked jobs were read."""
        return [(each, each.diagnosis) for each in self.partitions if each.diagnosis is not None]

    @property
    def running(self) -> RunningVersions:
        """Versions of apps that live workers run."""
        alive = [worker for worker in self.workers if worker.alive]
        times = [*(worker.seen for worker in alive), *(app.seen for app in self.apps)]
        return RunningVersions(self.apps, alive, max(times, default=datetime.fromtimestamp(0, UTC)))


class OverviewReader:
    """Reads overviews of one server, and caches data to make the next read cheaper.

    The first read makes one call per requested queue, a second call per queue with ready jobs or with worker processes
    that serve no other queue, and a few calls for everything else.
    """

    def __init__(self, *, cheap_locks: float = 0.0) -> None:
        """Start without cached data; cheap_locks: if a read of all locks takes longer (seconds), cache it for 15 s."""
        self._waited_locks = LockCache(contended=True)
        self._all_locks = LockCache(cheap=cheap_locks)
        self._sessions: dict[str, list[str]] = {}
        self._backlogs: dict[str, Backlog] = {}

    def read(self, runtime: Runtime, parts: Part, **options: Any) -> SystemOverview:
        """Read the parts; raises a LockworkError if the server does not answer. Options: see `protocol`."""
        overview = runtime.run(self.protocol(runtime.prefix, parts, **options))
        return replace(overview, embedded=runtime.embedded)

    async def aread(self, runtime: Runtime, parts: Part, **options: Any) -> SystemOverview:
        """Async version of `read`."""
        overview = await runtime.arun(self.protocol(runtime.prefix, parts, **options))
        return replace(overview, embedded=runtime.embedded)

    def protocol(
        self,
        prefix: str,
        parts: Part,
        *,
        names: Sequence[str] | None = None,
        own: Iterable[str] | None = None,
        most: int | None = None,
        skip_refused: bool = False,
    ) -> Protocol[SystemOverview]:
        """Read the parts.

        Args:
            prefix: the prefix of all keys.
            parts: the parts to read.
            names: the queues and partitions to read; None (default): all that ever had a job or are served by a worker.
            own: the queues of this app. If given, all queues of its tasks and of announced apps are read, too.
            most: the maximum number of queues and partitions to read; None (default): no limit.
            skip_refused: leave out queues and parts that this user may not read. Locks are always left out then.
        """
        refused = NAMES

        def optional(part: Part, protocol: Protocol[list[T]]) -> Protocol[list[T]]:
            nonlocal refused
            if part not in parts:
                return []
            try:
                return (yield from protocol)
            except ServerRefused:
                if not skip_refused:
                    raise
                refused |= part
                return []

        locks = self._all_locks if Part.ALL_LOCKS in parts else self._waited_locks
        reads: list[Protocol[Any]] = [
            _names(prefix, names),
            optional(Part.WORKERS, read_workers(prefix)),
            optional(Part.APPS, read_apps(prefix)),
            locks.read(prefix) if parts & _OF_LOCKS else _nothing(),
        ]
        listed, workers, apps, all_locks = yield from concurrently(reads)
        if all_locks is None:
            refused |= parts & _OF_LOCKS
        queues: list[str] = listed if own is None else list({*listed, *own, *_announced_queues(apps)})
        if names is None:
            queues = sorted(queues, key=lambda name: (base_queue(name), partition_number(name)))
        partitions = yield from self._partitions(prefix, queues[:most], parts, skip_refused)
        return SystemOverview(queues, partitions, workers, apps, all_locks, refused)

    def _partitions(
        self, prefix: str, names: Sequence[str], parts: Part, skip_refused: bool
    ) -> Protocol[list[PartitionState]]:
        """Read the first queue, then the others in batches; they often have the same worker processes."""
        if not parts & _OF_QUEUES:
            return []
        states: list[PartitionState] = []
        for batch in _batches(names):
            first = len(states)
            expected = states[-1].sessions[:_EXPECTED] if states else ()
            reads = [
                self._partition(
                    QueueKeys(prefix, name),
                    parts if first + at < MOST_DIAGNOSED else parts & ~Part.DIAGNOSIS,
                    self._sessions.get(name, expected),
                    skip_refused,
                )
                for at, name in enumerate(batch)
            ]
            states += [state for state in (yield from concurrently(reads)) if state is not None]
        self._sessions |= {state.name: state.sessions for state in states}
        return states

    def _partition(
        self, keys: QueueKeys, parts: Part, expected: Sequence[str], skip_refused: bool
    ) -> Protocol[PartitionState | None]:
        """Read one queue or partition; return None if this user may not read it."""
        try:
            return (yield from self._read_partition(keys, parts, expected))
        except ServerRefused:
            if not skip_refused:
                raise
            return None

    def _read_partition(self, keys: QueueKeys, parts: Part, expected: Sequence[str]) -> Protocol[PartitionState]:
        status, workers, rules = yield from queue_status.status_and_rules(keys, expected)
        head, oldest = None, NONE_READY
        if Part.LEASES in parts or (Part.AGES in parts and status.ready):
            head = yield from queue_head(keys)
        if Part.AGES in parts and head is not None:
            oldest = yield from age_at(keys, head, self._backlogs.setdefault(keys.name, Backlog()))
        diagnosis = (yield from _diagnosis(keys, status)) if Part.DIAGNOSIS in parts else None
        lease_left = None if head is None else head.lease_left
        return PartitionState(keys.name, status, workers, rules, oldest, lease_left, diagnosis)


def _nothing() -> Protocol[None]:
    return None
    yield


def _names(prefix: str, names: Sequence[str] | None) -> Protocol[list[str]]:
    return list(names) if names is not None else (yield from index.queues(prefix))


def _announced_queues(apps: Iterable[App]) -> Iterator[str]:
    for app in apps:
        for queue in {task.queue for task in app.tasks}:
            count = app.partitions.get(queue, 0)
            yield from (f"{queue}/{number}" for number in range(count)) if count else (queue,)


def _batches(names: Sequence[str]) -> Iterator[Sequence[str]]:
    yield names[:1]
    for at in range(1, len(names), _BATCH):
        yield names[at : at + _BATCH]


def _diagnosis(keys: QueueKeys, status: queue_status.QueueStatus) -> Protocol[Diagnosis]:
    died, causes = 0, Counter[str]()
    if status.dead:
        died = yield script_call("dead/count_since", keys.dead, [RECENT * 1000])
    if died:
        page = yield from dead.page(keys, dead.Filter(most_age=RECENT * 1000), "", NEWEST, newest=True)
        causes.update(f"{job.error.type} in {job.call.task}" for job in page.jobs if job.error.type and job.call.task)
    parked = (yield from parked_tasks(keys)) if status.scheduled else []
    return Diagnosis(died, causes, parked)
