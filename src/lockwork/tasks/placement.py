"""Assigns jobs to the partitions of a task's queue, and joins the errors of several partitions into one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from lockwork.errors import ConfigError, JobNotReplicated, QueueFull
from lockwork.jobs.job import Origin
from lockwork.protocol.queue.enqueue import PUSH_BATCH, NewJob
from lockwork.tasks.enqueue_batcher import EnqueueBatcher
from lockwork.tasks.options import TaskOptions


class Partition(NamedTuple):
    """One partition of a task's queue, or the whole queue if it has no partitions."""

    batcher: EnqueueBatcher
    origin: Origin


def split(
    jobs: Sequence[NewJob], partitions: int, where: Callable[[NewJob], int], *, plain: bool
) -> Iterable[tuple[int, Sequence[int]]]:
    """Yield the number of each partition that gets some of the jobs, and their positions, in order.

    `plain`: no name decides a job's partition, so whole batches of neighbors go to one.
    """
    if not plain:
        named: defaultdict[int, list[int]] = defaultdict(list)
        for at, job in enumerate(jobs):
            named[where(job)].append(at)
        yield from named.items()
        return
    batches = -(-len(jobs) // PUSH_BATCH)
    parts = min(batches, partitions)
    for part in range(parts):
        begin, end = (PUSH_BATCH * (batches * edge // parts) for edge in (part, part + 1))
        yield where(jobs[begin]), range(begin, min(end, len(jobs)))


class SplitPush:
    """The outcome of enqueuing jobs in several partitions, one after the other."""

    def __init__(self, jobs: Sequence[NewJob]) -> None:
        self._jobs = jobs
        self._done: set[int] = set()
        self.late: JobNotReplicated | None = None
        """Set when a partition's replicas were late; then the replicas of the others are not waited for."""

    @contextmanager
    def of(self, positions: Sequence[int]) -> Iterator[None]:
        """Enqueue the jobs at these positions inside; raises QueueFull with the positions of all missing jobs."""
        try:
            yield
        except JobNotReplicated as error:
            self.late = error
        except QueueFull as full:
            raise self._full(full, positions) from None
        else:
            if self.late is not None:
                self.late = self._also_late(self.late, positions)
        self._done.update(positions)

    def check(self) -> None:
        """Raise JobNotReplicated if the replicas of some jobs were late."""
        if self.late is not None:
            raise self.late

    def _full(self, full: QueueFull, positions: Sequence[int]) -> QueueFull:
        done, jobs = self._done.union(positions[: full.enqueued]), len(self._jobs)
        message = f"{full} ({len(done):,} of the {jobs:,} jobs are enqueued)"
        missing = tuple(at for at in range(jobs) if at not in done)
        return QueueFull(message, full.queue, full.waiting, full.limit, len(done), missing)

    def _also_late(self, late: JobNotReplicated, positions: Sequence[int]) -> JobNotReplicated:
        text = str(late).partition("; other partitions")[0]
        ids = (*late.ids, *(self._jobs[at].id for at in positions))
        return JobNotReplicated(f"{text}; other partitions' replicas were not waited for: {len(ids)} jobs in all", ids)


def check_one_name(task: str, options: TaskOptions) -> None:
    """Raise ConfigError for a task whose names could decide different partitions."""
    unique = options.unique
    names_by_option = {
        "key": options.grouping.key,
        "group": options.grouping.group,
        "unique": None if unique is None else unique.name,
        "id": options.own_id,
    }
    if any(options.limits) and any(names_by_option.values()):
        raise ConfigError(
            f"task {task!r}: its queue has partitions, and the limits of a task need all of its jobs on one partition: "
            "remove key, group, unique and id, or use a queue without partitions"
        )
    names = {what: name for what, name in names_by_option.items() if name is not None}
    if len(set(names.values())) > 1:
        pairs = " and ".join(f"{what}={name!r}" for what, name in names.items())
        raise ConfigError(
            f"task {task!r}: its queue has partitions, and {pairs} could decide two of them: set only one of them, "
            "use the same text for all, or use a queue without partitions"
        )
