"""Tasks whose code lives elsewhere: `lw.remote_task("other.task", queue="mail")`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar, Unpack
from typing import Protocol as Interface

from lockwork.errors import ConfigError
from lockwork.foreign_words import TASK_METHODS, attribute_error
from lockwork.jobs.job import Job
from lockwork.jobs.many import AEnqueuesMany, EnqueuesMany
from lockwork.protocol.effects import Protocol
from lockwork.runtime.runtime import Runtime
from lockwork.tasks.call import ResultCall
from lockwork.tasks.on_commit import OnCommit
from lockwork.tasks.options import CallSettings, TaskOptions
from lockwork.tasks.task import Task

R = TypeVar("R")
Arguments = tuple[Sequence[Any], dict[str, Any]]


class TaskDirectory(Interface):
    """Finds tasks by name: those of the app itself, and those that other apps have announced."""

    def find(
        self, name: str, queue: str | None, returns: Any, *, again: bool = False
    ) -> Protocol[list[Task[..., Any, Any]]]:
        """Return the task, once for each version that may run its jobs, the newest first; raises ConfigError.

        again: read the announcements again, because no version fits.
        """
        ...

    def check_partitions(self, task: Task[..., Any, Any]) -> None:
        """Raise ConfigError if this app has another number of partitions for the task's queue."""

    def job(self, id: str, queue: str | None, returns: Any) -> Job[Any]:
        """Return the handle of an existing job."""
        ...


class RemoteTask(EnqueuesMany, AEnqueuesMany, Generic[R]):
    """A task by its name: other programs have its code, and announce its parameters and options on the server.

    A call must fit the parameters of a version that live workers run, and gets that version's options. Reads the
    announcements at the first call, then once a minute. If no app has announced the task, calls are not checked.
    """

    def __init__(
        self,
        runtime: Runtime,
        directory: TaskDirectory,
        name: str,
        queue: str | None,
        returns: Any = Any,
        changes: tuple[CallSettings, ...] = (),
    ) -> None:
        self.name: str = name
        self.queue: str | None = queue
        """The queue of its jobs; None: the queue that its app has announced."""
        self._runtime = runtime
        self._directory = directory
        self._returns = returns
        self._changes = changes

    def enqueue(self, *args: Any, **kwargs: Any) -> Job[R]:
        """Enqueue a call, as `Task.enqueue` does; raises the same errors.

        Raises ConfigError, too, if no app has announced the task and it has no `queue=`.
        """
        return self._runtime.run(self._found([(args, kwargs)])).enqueue(*args, **kwargs)

    async def aenqueue(self, *args: Any, **kwargs: Any) -> Job[R]:
        """Async version of `enqueue`."""
        return await (await self._runtime.arun(self._found([(args, kwargs)]))).aenqueue(*args, **kwargs)

    def enqueue_many(self, arguments: Iterable[tuple[Any, ...]]) -> list[Job[R]]:
        """Enqueue one call per tuple of positional arguments, as `Task.enqueue_many` does."""
        return self._enqueue_all(arguments)

    async def aenqueue_many(self, arguments: Iterable[tuple[Any, ...]]) -> list[Job[R]]:
        """Async version of `enqueue_many`."""
        return await self._aenqueue_all(arguments)

    def options(self, **changes: Unpack[CallSettings]) -> RemoteTask[R]:
        """Return the task with other options for single jobs; see CallSettings. Raises ConfigError."""
        TaskOptions(queue=self.queue or "default").changed(changes)
        queue = changes.get("queue", self.queue)
        rest: CallSettings = {**changes}
        rest.pop("queue", None)
        return RemoteTask(
            self._runtime,
            self._directory,
            self.name,
            queue,
            self._returns,
            (*self._changes, rest) if rest else self._changes,
        )

    def call(self, *args: Any, **kwargs: Any) -> ResultCall[R]:
        """Return the call for a stock, schedule, lock or flow to enqueue, as `Task.call` does.

        It may read the announcements: in a coroutine, use `acall`. Raises ConfigError, too, if the queue's number of
        partitions differs from this app's setting.
        """
        return self._placed(self._runtime.run(self._found([(args, kwargs)]))).call(*args, **kwargs)

    async def acall(self, *args: Any, **kwargs: Any) -> ResultCall[R]:
        """Async version of `call`."""
        return self._placed(await self._runtime.arun(self._found([(args, kwargs)]))).call(*args, **kwargs)

    def on_commit(self, where: object) -> OnCommit[..., R]:
        """Return a task whose `enqueue` waits for the commit of a database transaction: see `Task.on_commit`."""
        return self._runtime.run(self._found([])).on_commit(where)

    async def aon_commit(self, where: object) -> OnCommit[..., R]:
        """Async version of `on_commit`; the `enqueue` of its result sends nothing before the commit."""
        return (await self._runtime.arun(self._found([]))).on_commit(where)

    def job(self, id: str) -> Job[R]:
        """Return the handle of an existing job of this task; it sends nothing yet."""
        return self._directory.job(id, self.queue, self._returns)

    def __call__(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        """Raise ConfigError, because the function is not here."""
        raise self._refusal()

    run = __call__

    async def arun(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        """Raise ConfigError, because the function is not here."""
        raise self._refusal()

    def _refusal(self) -> ConfigError:
        return ConfigError(
            f"task {self.name!r} is known here by name only, so it cannot run here: use enqueue(...), or import the "
            "module that defines it"
        )

    def _found(self, calls: Sequence[Arguments]) -> Protocol[Task[..., R, Any]]:
        """Return the first version of the task that all calls fit, or else the newest one, which refuses them."""
        tasks = yield from self._directory.find(self.name, self.queue, self._returns)
        task = _fitting(tasks, calls)
        if task is None:
            tasks = yield from self._directory.find(self.name, self.queue, self._returns, again=True)
            task = _fitting(tasks, calls) or tasks[0]
        for changes in self._changes:
            task = task.options(**changes)
        return task

    def _placed(self, task: Task[..., R, Any]) -> Task[..., R, Any]:
        self._directory.check_partitions(task)
        return task

    def _enqueue_all(self, arguments: Iterable[Any]) -> list[Job[R]]:
        rows = list(arguments)
        return self._runtime.run(self._found([(row, {}) for row in rows])).enqueue_many(rows)

    async def _aenqueue_all(self, arguments: Iterable[Any]) -> list[Job[R]]:
        rows = list(arguments)
        return await (await self._runtime.arun(self._found([(row, {}) for row in rows]))).aenqueue_many(rows)

    if not TYPE_CHECKING:  # type checkers must report these names as unknown

        def __getattr__(self, name: str) -> Any:
            raise attribute_error(type(self).__name__, name, TASK_METHODS, vars(self).get("name", "task"))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RemoteTask) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash((self.name, self.queue))

    def _identity(self) -> tuple[object, ...]:
        return self._runtime, self.name, self.queue, self._returns, self._changes

    def __repr__(self) -> str:
        return f"<RemoteTask {self.name!r}{f' queue={self.queue!r}' if self.queue else ''}>"


def found(task: RemoteTask[R], calls: Sequence[Arguments]) -> Protocol[Task[..., R, Any]]:
    """Return the version of a remote task that gets these calls."""
    return task._found(calls)  # noqa: SLF001


def _fitting(tasks: Sequence[Task[..., Any, Any]], calls: Sequence[Arguments]) -> Task[..., Any, Any] | None:
    """Return the first task whose signature has the parameters of all calls."""
    return next((task for task in tasks if all(_fits(task, *call) for call in calls)), None)


def _fits(task: Task[..., Any, Any], args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
    try:
        task.signature.check(args, kwargs)
    except TypeError:
        return False
    return True
