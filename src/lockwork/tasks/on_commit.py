"""A task as `task.on_commit(...)` gives it: what it enqueues waits for the end of a transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, ParamSpec, TypeVar

from lockwork.tasks.pending_jobs import Kept, Way
from lockwork.commits.hooks import check, keep
from lockwork.jobs.job import Job
from lockwork.jobs.many import EnqueuesMany
from lockwork.protocol.queues.enqueue import NewJob

P = ParamSpec("P")
R = TypeVar("R")


class OnCommit(EnqueuesMany, Generic[P, R]):
    """Enqueues with a transaction; sends nothing itself, so it never blocks."""

    def __init__(
        self,
        where: object,
        way: Way,
        new: Callable[[tuple[Any, ...], dict[str, Any]], NewJob],
        many: Callable[[Iterable[tuple[Any, ...]]], list[NewJob]],
        handle: Callable[[str], Job[R]],
    ) -> None:
        check(where)
        self._where = where
        self._way = way
        self._new = new
        self._many = many
        self._handle = handle

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Job[R]:
        """Enqueue a call when the transaction has been committed; the job that is returned is unknown until then.

        Raises TypeError if the arguments do not fit, ConfigError or PayloadTooLarge at once. The commit raises
        NotEnqueued when the server could not be reached after it.
        """
        return self._keep([self._new(args, kwargs)])[0]

    def _enqueue_all(self, arguments: Iterable[Any]) -> list[Job[R]]:
        return self._keep(self._many(arguments))

    def _keep(self, jobs: list[NewJob]) -> list[Job[R]]:
        keep(self._where, [Kept(self._way, job) for job in jobs])
        return [self._handle(job.id) for job in jobs]
