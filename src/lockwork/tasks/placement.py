"""Tasks of a partitioned queue: each job goes to one partition, and from there on is like any other.

To a partition belongs a copy of the task that knows only that partition, and does what any task does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from itertools import count
from random import randrange
from typing import Any, ParamSpec, TypeVar

from lockwork.errors import ConfigError, JobNotReplicated, QueueFull
from lockwork.jobs.job import Job, Origin
from lockwork.partitions import numbered, routing_name
from lockwork.protocol.effects import Protocol
from lockwork.protocol.queues.enqueue import PUSH_BATCH, NewJob
from lockwork.tasks.batch_task import BatchTask
from lockwork.tasks.enqueue_batcher import EnqueueBatcher
from lockwork.tasks.on_commit import OnCommit, keep
from lockwork.tasks.options import TaskOptions
from lockwork.tasks.pending_jobs import Enqueuer, PendingJob
from lockwork.tasks.task import Task

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C")
T = TypeVar("T")


class PartitionedTask(Task[P, R, C]):
    """A task whose jobs are spread over partitions: by key, group or unique name, or in turn."""

    def __init__(self, batchers: Sequence[EnqueueBatcher], *rest: Any) -> None:
        self._batchers = batchers
        self._turns = count(randrange(len(batchers)))  # noqa: S311 - where a process begins is no secret
        self._parts: dict[int, PartitionedTask[P, R, C]] = {}
        super().__init__(batchers[0], *rest)

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> Job[R]:
        """As of any task."""
        job = self._new(args, kwargs)
        part: PartitionedTask[P, R, C] = self._part(self._where(job))
        options = self.options_in_force
        if options.unique is not None or options.expires_ms is not None:
            return (await self._runtime.arun(part._push_here([job])))[0]
        return await part._gathered(job)

    def on_commit(self, where: object) -> OnCommit[P, R]:
        """As of any task."""
        way = Enqueuer(self._runtime, self._push)
        return _OnCommit(where, way, self._new, self._many, self._handle, self._put_off)

    def _origins(self) -> Sequence[Origin]:
        parts = map(self._part, range(len(self._batchers)))
        return [part._origin for part in parts]  # noqa: SLF001 - of this class, too

    def _take(self, options: TaskOptions) -> None:
        _check_one_name(self.name, options)
        super()._take(options)
        self._parts = {}

    def _part(self, number: int) -> PartitionedTask[P, R, C]:
        """The task as one partition knows it."""
        known = self._parts.get(number)
        if known is not None:
            return known
        part: PartitionedTask[P, R, C] = copy(self)
        batcher = part._batcher = self._batchers[number]
        part._keys = batcher.keys
        part._origin = Origin(self._runtime, batcher.keys, self.signature.returns, self._context.errors)
        part.options_in_force = replace(self.options_in_force, queue=batcher.keys.name)
        return self._parts.setdefault(number, part)

    def _where(self, job: NewJob) -> int:
        """The number of the partition to which a job goes."""
        if self._heads.plain is not None:
            return next(self._turns) % len(self._batchers)
        return numbered(routing_name(job.record, self.name) or "", len(self._batchers))

    def _split(self, jobs: Sequence[NewJob]) -> Iterator[tuple[PartitionedTask[P, R, C], Sequence[int]]]:
        """Which of the jobs go to which partition, in their order; plain ones in whole batches, side by side."""
        if self._heads.plain is not None:
            batches = -(-len(jobs) // PUSH_BATCH)
            parts = min(batches, len(self._batchers))
            for number in range(parts):
                begin, end = (PUSH_BATCH * (batches * edge // parts) for edge in (number, number + 1))
                yield self._part(self._where(jobs[begin])), range(begin, min(end, len(jobs)))
            return
        places: defaultdict[int, list[int]] = defaultdict(list)
        for at, job in enumerate(jobs):
            places[self._where(job)].append(at)
        for number, some in places.items():
            yield self._part(number), some

    def _push_here(self, jobs: list[NewJob]) -> Protocol[list[Job[R]]]:
        """Enqueue jobs of this partition."""
        return super()._push(jobs)

    def _push(self, jobs: list[NewJob]) -> Protocol[list[Job[R]]]:
        if len(jobs) == 1:
            only: PartitionedTask[P, R, C] = self._part(self._where(jobs[0]))
            return (yield from only._push_here(jobs))
        found: dict[int, Job[R]] = {}
        done: set[int] = set()
        late: JobNotReplicated | None = None
        for there, places in self._split(jobs):
            part: PartitionedTask[P, R, C] = there if late is None else _without_waiting(there)
            some = [jobs[at] for at in places]
            try:
                handles = yield from part._push_here(some)
            except JobNotReplicated as error:
                late = error
            except QueueFull as full:
                raise _full(full, done.union(places[: full.enqueued]), len(jobs)) from None
            else:
                found.update(zip(places, handles, strict=True))
                if late is not None:
                    late = _and(late, some)
            done.update(places)
        if late is not None:
            raise late
        return [found[at] for at in range(len(jobs))]

    def _put_off(self, jobs: list[NewJob]) -> tuple[list[PendingJob], list[Job[R]]]:
        """Jobs that are enqueued later, and their handles, which tell already where they will be."""
        kept: list[PendingJob] = []
        found: dict[int, Job[R]] = {}
        for there, places in self._split(jobs):
            part: PartitionedTask[P, R, C] = there
            way = Enqueuer(self._runtime, part._push_here)
            kept += [PendingJob(way, jobs[at]) for at in places]
            for at in places:
                found[at] = part._handle(jobs[at].id)
        return kept, [found[at] for at in range(len(jobs))]


class PartitionedBatchTask(PartitionedTask[[T], R, C], BatchTask[T, R, C]):
    """The same for batch tasks; a batch is of jobs of one partition."""


class _OnCommit(OnCommit[P, R]):
    def __init__(
        self,
        where: object,
        way: Enqueuer,
        new: Callable[[tuple[Any, ...], dict[str, Any]], NewJob],
        many: Callable[..., list[NewJob]],
        handle: Callable[[str], Job[R]],
        put_off: Callable[[list[NewJob]], tuple[list[PendingJob], list[Job[R]]]],
    ) -> None:
        super().__init__(where, way, new, many, handle)
        self._put_off = put_off

    def _keep(self, jobs: list[NewJob]) -> list[Job[R]]:
        kept, handles = self._put_off(jobs)
        keep(self._where, kept)
        return handles


def _check_one_name(task: str, options: TaskOptions) -> None:
    """Raise ConfigError for a task whose names could decide different partitions."""
    unique = options.unique
    given = {"key": options.lines.key, "group": options.lines.group, "unique": None if unique is None else unique.name}
    names = {what: name for what, name in given.items() if name is not None}
    if len(set(names.values())) > 1:
        shown = " and ".join(f"{what}={name!r}" for what, name in names.items())
        raise ConfigError(
            f"task {task!r}: its queue has partitions, and {shown} could decide two of them: give one of them only, or "
            "the same text for all, or let the task have a queue without partitions"
        )


def _full(full: QueueFull, done: set[int], jobs: int) -> QueueFull:
    message = f"{full} ({len(done):,} of the {jobs:,} jobs are enqueued)"
    missing = tuple(at for at in range(jobs) if at not in done)
    return QueueFull(message, full.queue, full.waiting, full.limit, len(done), missing)


def _without_waiting(part: PartitionedTask[P, R, C]) -> PartitionedTask[P, R, C]:
    """The same without replicas: when those of one partition were not in time, the others' are not waited for."""
    task = copy(part)
    task.options_in_force = replace(part.options_in_force, replicas=0)
    return task


def _and(late: JobNotReplicated, jobs: Sequence[NewJob]) -> JobNotReplicated:
    """The error with jobs of a partition whose replicas were not waited for."""
    said = str(late).partition("; other partitions")[0]
    ids = (*late.ids, *(job.id for job in jobs))
    return JobNotReplicated(f"{said}; other partitions' replicas were not waited for: {len(ids)} jobs in all", ids)
