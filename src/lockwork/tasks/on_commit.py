"""A task as `task.on_commit(...)` gives it: what it enqueues waits for the end of a transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Generic, ParamSpec, Protocol, TypeVar

from lockwork.errors import ConfigError
from lockwork.jobs.job import Job
from lockwork.jobs.many import EnqueuesMany
from lockwork.protocol.queues.enqueue import NewJob
from lockwork.tasks.pending_jobs import Enqueuer, PendingJob, deliver

P = ParamSpec("P")
R = TypeVar("R")


class OnCommit(EnqueuesMany, Generic[P, R]):
    """Enqueues with a transaction; sends nothing itself, so it never blocks."""

    def __init__(
        self,
        where: object,
        way: Enqueuer,
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
        keep(self._where, [PendingJob(self._way, job) for job in jobs])
        return [self._handle(job.id) for job in jobs]


class TransactionAdapter(Protocol):
    """Knows the sessions and connections of one database library."""

    def takes(self, where: object) -> bool | None:
        """True for a session or connection, False for another object of the library, None for anything else."""

    def keep(self, where: Any, kept: Sequence[PendingJob]) -> None:
        """Keep jobs until the transaction that `where` is in has been committed; raises ConfigError."""


_adapters: list[TransactionAdapter] = []


def register(adapter: TransactionAdapter) -> None:
    """Let `on_commit` take what this adapter takes."""
    _adapters.append(adapter)


def check(where: object) -> None:
    """Raise ConfigError unless `where` can say that a transaction has been committed."""
    if _adapter(where) is None and not _takes_a_callback(where):
        raise ConfigError(
            "on_commit takes a session or connection of SQLAlchemy, or a function to which a callback is given, such "
            f"as Django's transaction.on_commit, not {where!r:.80}"
        )


def keep(where: Any, kept: Sequence[PendingJob]) -> None:
    """Keep these jobs until the transaction that `where` is in has been committed; raises ConfigError."""
    adapter = _adapter(where)
    if adapter is not None:
        adapter.keep(where, kept)
    else:
        where(partial(deliver, kept))


def _adapter(where: object) -> TransactionAdapter | None:
    return next((adapter for adapter in _adapters if adapter.takes(where)), None)


def _takes_a_callback(where: object) -> bool:
    # a session maker is callable, too, and would be taken for a function that takes a callback
    foreign = any(adapter.takes(where) is False for adapter in _adapters)
    return callable(where) and not isinstance(where, type) and not foreign
