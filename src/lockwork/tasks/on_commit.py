"""Jobs that wait for the commit of a database transaction: `task.on_commit(session).enqueue(...)`."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from functools import partial
from importlib import import_module
from itertools import groupby
from typing import Any, Generic, ParamSpec, TypeVar
from typing import Protocol as Interface

from msgspec import Struct

from lockwork.errors import ConfigError, JobNotReplicated, LockworkError, NotEnqueued
from lockwork.jobs.job import Job
from lockwork.jobs.many import EnqueuesMany
from lockwork.lazy import asyncio, running_loop
from lockwork.logs import Log
from lockwork.protocol.effects import Call, Protocol
from lockwork.protocol.queue.enqueue import NewJob
from lockwork.runtime.runtime import Runtime
from lockwork.tasks.placement import Partition

P = ParamSpec("P")
R = TypeVar("R")
J = TypeVar("J")

log: Log = Log("lockwork")


class Enqueuer(Struct, frozen=True):
    """Enqueues jobs of one task, with its options, in one partition."""

    runtime: Runtime
    push: Callable[[Partition, list[NewJob]], Protocol[object]]
    partition: Partition


class PendingJob(Struct, frozen=True):
    """A job that is enqueued after its transaction has been committed."""

    enqueuer: Enqueuer
    job: NewJob


class OnCommit(EnqueuesMany, Generic[P, R]):
    """A task that enqueues with a transaction; it sends nothing before the commit, so it never blocks."""

    def __init__(
        self,
        where: object,
        new: Callable[[tuple[Any, ...], dict[str, Any]], J],
        many: Callable[[Iterable[tuple[Any, ...]]], list[J]],
        put_off: Callable[[list[J]], tuple[list[PendingJob], list[Job[R]]]],
    ) -> None:
        if _adapter(where) is None and not _takes_a_callback(where):
            raise ConfigError(
                "on_commit takes a session or connection of SQLAlchemy, or a function to which a callback is given, "
                f"such as Django's transaction.on_commit, not {where!r:.80}"
            )
        self._where: Any = where
        self._new: Callable[[tuple[Any, ...], dict[str, Any]], Any] = new
        self._many: Callable[[Iterable[tuple[Any, ...]]], list[Any]] = many
        self._put_off: Callable[[list[Any]], tuple[list[PendingJob], list[Job[R]]]] = put_off

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Job[R]:
        """Enqueue a call when the transaction has been committed; the job that is returned is unknown until then.

        Raises TypeError if the arguments do not fit, ConfigError or PayloadTooLarge at once. The commit raises
        NotEnqueued when the server could not be reached after it.
        """
        return self._keep([self._new(args, kwargs)])[0]

    def _enqueue_all(self, arguments: Iterable[Any]) -> list[Job[R]]:
        return self._keep(self._many(arguments))

    def _keep(self, jobs: list[Any]) -> list[Job[R]]:
        pending, handles = self._put_off(jobs)
        adapter = _adapter(self._where)
        if adapter is not None:
            adapter.keep(self._where, pending)
        else:
            self._where(partial(deliver, pending))
        return handles


class TransactionAdapter(Interface):
    """Knows the sessions and connections of one database library."""

    def takes(self, where: object) -> bool | None:
        """True for a session or connection, False for another object of the library, None for anything else."""

    def keep(self, where: Any, pending: Sequence[PendingJob]) -> None:
        """Keep jobs until the transaction that `where` is in has been committed; raises ConfigError."""


_adapters: list[TransactionAdapter] = []


def register(adapter: TransactionAdapter) -> None:
    """Let `on_commit` accept the objects that this adapter accepts."""
    _adapters.append(adapter)


_INTEGRATIONS = {"sqlalchemy": "lockwork.contrib.sqlalchemy"}
"""Modules that register an adapter when they are imported, by the library whose sessions they support."""


def _adapter(where: object) -> TransactionAdapter | None:
    for library, module in _INTEGRATIONS.items():
        if library in sys.modules:  # otherwise `where` cannot be an object of the library
            import_module(module)
    return next((adapter for adapter in _adapters if adapter.takes(where)), None)


def _takes_a_callback(where: object) -> bool:
    # a session maker is callable, too, but does not take a callback
    foreign = any(adapter.takes(where) is False for adapter in _adapters)
    return callable(where) and not isinstance(where, type) and not foreign


class Transactions(Interface):
    """Knows the transactions that are open here, for tasks with the option `on_commit`; made by an integration.

    `using` is True for any database, or the name of one.
    """

    def check(self, using: bool | str) -> None:
        """Raise ConfigError if `using` names no database."""

    def find(self, using: bool | str) -> Callable[[Callable[[], object]], object] | None:
        """Return a function that calls its argument after the commit; None if no transaction is open here."""

    async def afind(self, using: bool | str) -> Callable[[Callable[[], object]], Awaitable[object]] | None:
        """Async version of `find`, also of the function that it returns."""


class CommitWait(Struct, frozen=True):
    """The transactions that the jobs of a task wait for."""

    transactions: Transactions
    using: bool | str

    def find(self) -> Callable[[Callable[[], object]], object] | None:
        """Return a function that takes a callback; None if the job is enqueued now."""
        return self.transactions.find(self.using)

    async def afind(self) -> Callable[[Callable[[], object]], Awaitable[object]] | None:
        """Async version of `find`."""
        return await self.transactions.afind(self.using)


class Commits:
    """The transactions of an app's integration, and the option `on_commit` of tasks that have none."""

    def __init__(self) -> None:
        self._transactions: Transactions | None = None
        self._default: bool | str = False

    def register(self, transactions: Transactions, default: bool | str) -> None:
        """Set both, before the app has tasks; raises ConfigError."""
        if default:
            transactions.check(default)
        self._transactions, self._default = transactions, default

    def wait(self, on_commit: bool | str | None) -> CommitWait | None:
        """Return what jobs with this option wait for; raises ConfigError. None: the app's default."""
        using = self._default if on_commit is None else on_commit
        if not using:
            return None
        if self._transactions is None:
            raise ConfigError(
                "the option on_commit needs an integration that knows the app's database, such as "
                "lockwork.contrib.django: use task.on_commit(session).enqueue(...)"
            )
        self._transactions.check(using)
        return CommitWait(self._transactions, using)


def send(pending: Sequence[PendingJob], *, again: bool = False) -> None:
    """Enqueue the jobs now. Raises NotEnqueued, or JobNotReplicated after all others were sent.

    `again`: an earlier attempt was interrupted, so the server may have some of the jobs.
    """
    progress = _Progress(pending)
    for enqueuer, jobs in progress.batches():
        pushing = enqueuer.push(enqueuer.partition, jobs)
        try:
            enqueuer.runtime.run(_again(pushing) if again else pushing)
        except LockworkError as error:
            progress.failed(error, jobs)
    progress.check()


async def asend(pending: Sequence[PendingJob]) -> None:
    """Async version of `send`."""
    progress = _Progress(pending)
    for enqueuer, jobs in progress.batches():
        try:
            await enqueuer.runtime.arun(enqueuer.push(enqueuer.partition, jobs))
        except LockworkError as error:
            progress.failed(error, jobs)
    progress.check()


def deliver(pending: Sequence[PendingJob]) -> asyncio.Task[None] | None:
    """Enqueue the jobs now; on the thread of a running event loop, by an asyncio task, which is returned.

    If that asyncio task is cancelled, as at the end of `asyncio.run`, a thread enqueues the jobs: they are committed.
    """
    loop = running_loop()
    if loop is None:
        send(pending)
        return None
    task = loop.create_task(asend(pending), name="lockwork-on-commit")
    _tasks.add(task)
    task.add_done_callback(partial(_ended, pending))
    return task


class _Progress:
    """The jobs already sent, and the errors raised."""

    def __init__(self, pending: Sequence[PendingJob]) -> None:
        self._pending = pending
        self._sent = 0
        self._late: JobNotReplicated | None = None

    def batches(self) -> Iterator[tuple[Enqueuer, list[NewJob]]]:
        """Yield neighboring jobs of one enqueuer together."""
        for enqueuer, batch in groupby(self._pending, key=lambda each: each.enqueuer):
            jobs = [each.job for each in batch]
            yield enqueuer, jobs
            self._sent += len(jobs)

    def failed(self, error: LockworkError, jobs: list[NewJob]) -> None:
        """Raise NotEnqueued for a batch that was not enqueued; remember a batch that too few replicas have."""
        if isinstance(error, JobNotReplicated):
            self._late = self._late or error
            return
        ids = tuple(each.job.id for each in self._pending[self._sent :])
        raise NotEnqueued(
            f"the transaction is committed, but {len(ids)} of its jobs could not be enqueued, from {jobs[0].id} on: "
            f"{error}",
            ids,
        ) from error

    def check(self) -> None:
        """Raise JobNotReplicated if too few replicas have some of the jobs."""
        if self._late is not None:
            raise self._late


_tasks: set[asyncio.Task[None]] = set()


def _ended(pending: Sequence[PendingJob], task: asyncio.Task[None]) -> None:
    _tasks.discard(task)
    if task.cancelled():
        # one of the loop's threads, because `asyncio.run` waits for these
        task.get_loop().run_in_executor(None, _send_again, pending)
    elif (error := task.exception()) is not None:
        log.error("after a commit: %s", error)


def _send_again(pending: Sequence[PendingJob]) -> None:
    try:
        send(pending, again=True)
    except Exception as error:  # noqa: BLE001 - no caller is left to raise it to
        log.error("after a commit: %s", error)


def _again(pushing: Protocol[object]) -> Protocol[object]:
    """Run it with each call as after a lost reply, so that the server enqueues no job twice."""
    reply: object = None
    while True:
        try:
            effect = pushing.send(reply)
        except StopIteration as done:
            return done.value
        reply = yield effect.again() if isinstance(effect, Call) else effect
