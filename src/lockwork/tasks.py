"""Tasks: functions that can be enqueued, and the registry which is the only place where their names resolve."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from typing import Any, Generic, Literal, ParamSpec, TypeVar

from lockwork import codecs
from lockwork.config import Config
from lockwork.durations import Duration, milliseconds, seconds
from lockwork.errors import ConfigError, UnknownTask
from lockwork.ids import new_id
from lockwork.jobs import Job
from lockwork.protocol import jobs as protocol
from lockwork.protocol.jobs import NewJob
from lockwork.protocol.keys import PRIORITIES, QueueKeys, checked, checked_queue
from lockwork.runtime.runtime import Runtime

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C")
Priority = Literal["high", "normal", "low"]
Function = Callable[P, R] | Callable[P, Coroutine[Any, Any, R]]


@dataclass(frozen=True, slots=True)
class TaskCall:
    """A call of a task that somebody else will enqueue, for instance a stock in one step with a reservation."""

    queue: str
    record: bytes
    delay_ms: int

    def job(self, id: str) -> NewJob:
        """The call as a job."""
        return NewJob(id, self.record, self.delay_ms)


@dataclass(frozen=True, slots=True)
class TaskOptions:
    """How a task's jobs run; durations in seconds."""

    queue: str
    retries: int
    backoff: float
    timeout: float | None
    priority: int
    keep_result: bool


class Task(Generic[P, R, C]):
    """A registered function: call it to run it here, `enqueue` it to run it in a worker."""

    def __init__(
        self, runtime: Runtime, config: Config, name: str, function: Callable[P, C], options: TaskOptions
    ) -> None:
        self.name = name
        self.function = function
        self.options_in_force = options
        self.signature: codecs.Signature = codecs.Signature(function)
        self.is_async: bool = inspect.iscoroutinefunction(function)
        self._runtime = runtime
        self._config = config
        self._keys = QueueKeys(config.prefix, options.queue)
        self._delay_ms = 0
        self.__doc__ = function.__doc__

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> C:
        return self.function(*args, **kwargs)

    def options(self, *, delay: Duration | None = None, priority: Priority | None = None) -> Task[P, R, C]:
        """Return the task with other options for its next jobs; `delay` is how long they wait before they may run."""
        changed = self.options_in_force
        if priority is not None:
            changed = replace_priority(changed, priority)
        task: Task[P, R, C] = Task(self._runtime, self._config, self.name, self.function, changed)
        task._delay_ms = self._delay_ms if delay is None else milliseconds(delay, "delay", zero=True)
        return task

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Job[R]:
        """Enqueue a call; it will run in a worker at least once, unless the server loses its data.

        Raises TypeError if the arguments do not fit, ConfigError, PayloadTooLarge or ServerUnavailable.
        """
        job = self._new(args, kwargs)
        self._runtime.run(protocol.push(self._keys, [job]))
        return self._handle(job)

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> Job[R]:
        """The same for an asyncio task."""
        job = self._new(args, kwargs)
        await self._runtime.arun(protocol.push(self._keys, [job]))
        return self._handle(job)

    def enqueue_many(self, arguments: Iterable[tuple[Any, ...]]) -> list[Job[R]]:
        """Enqueue one call per tuple of positional arguments, a thousand per round trip."""
        jobs = [self._new(args, {}) for args in arguments]
        self._runtime.run(protocol.push(self._keys, jobs))
        return [self._handle(job) for job in jobs]

    async def aenqueue_many(self, arguments: Iterable[tuple[Any, ...]]) -> list[Job[R]]:
        """The same for an asyncio task."""
        jobs = [self._new(args, {}) for args in arguments]
        await self._runtime.arun(protocol.push(self._keys, jobs))
        return [self._handle(job) for job in jobs]

    def call(self, *args: P.args, **kwargs: P.kwargs) -> TaskCall:
        """Return the call for somebody else to enqueue; its job gets the id of what it is enqueued with."""
        return TaskCall(self.options_in_force.queue, self._record(args, kwargs), self._delay_ms)

    def _new(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> NewJob:
        return NewJob(new_id(), self._record(args, kwargs), self._delay_ms)

    def _record(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
        self.signature.check(args, kwargs)
        call = [self.name, args, kwargs] if kwargs else [self.name, args]
        body = codecs.encode(call, f"the arguments of task {self.name!r}", self._config.max_payload)
        return protocol.record(self.options_in_force.priority, self.options_in_force.retries + 1, body)

    def _handle(self, job: NewJob) -> Job[R]:
        return Job(self._runtime, self._keys, self.options_in_force.queue, job.id, self.signature.returns)

    def __repr__(self) -> str:
        return f"<Task {self.name!r} queue={self.options_in_force.queue!r}>"


class Registry:
    """The tasks of one app by name; nothing else is ever called for a name from the wire."""

    def __init__(self) -> None:
        self._tasks: dict[str, Task[Any, Any, Any]] = {}

    def add(self, task: Task[Any, Any, Any]) -> None:
        """Register a task; raises ConfigError when its name is taken by another function."""
        taken = self._tasks.get(task.name)
        if taken is not None and _place(taken.function) != _place(task.function):
            raise ConfigError(
                f"task {task.name!r} of {_place(task.function)} has the name of {_place(taken.function)}: "
                "give one of them name=..."
            )
        self._tasks[task.name] = task

    def get(self, name: str) -> Task[Any, Any, Any]:
        """Return the task; raises UnknownTask."""
        try:
            return self._tasks[name]
        except KeyError:
            raise UnknownTask(
                f"no task is named {name!r} here: is its module imported by the worker's module, or was it renamed?"
            ) from None

    def queues(self) -> list[str]:
        """The queues that the tasks use."""
        return sorted({task.options_in_force.queue for task in self._tasks.values()})


def options(
    queue: str, retries: int, backoff: Duration, timeout: Duration | None, priority: str, *, keep_result: bool
) -> TaskOptions:
    """Check a task's options; raises ConfigError."""
    if isinstance(retries, bool) or not isinstance(retries, int) or not 0 <= retries <= 1000:
        raise ConfigError(f"retries must be a whole number from 0 to 1000, not {retries!r}")
    limit = None if timeout is None else seconds(timeout, "timeout")
    return TaskOptions(
        checked_queue(queue),
        retries,
        seconds(backoff, "backoff", zero=True),
        limit,
        _level(priority),
        keep_result,
    )


def replace_priority(current: TaskOptions, priority: str) -> TaskOptions:
    """The same options with another priority."""
    return TaskOptions(
        current.queue,
        current.retries,
        current.backoff,
        current.timeout,
        _level(priority),
        current.keep_result,
    )


def task_name(function: Callable[..., Any], name: str | None) -> str:
    """The name a function is registered under: its own unless one is given."""
    return checked(function.__name__ if name is None else name, "a task's name")


def _level(priority: str) -> int:
    if priority not in PRIORITIES:
        raise ConfigError(f"priority must be one of {', '.join(PRIORITIES)}, not {priority!r}")
    return PRIORITIES.index(priority)


def _place(function: Callable[..., Any]) -> str:
    module = getattr(function, "__module__", "?")
    return f"{module}.{getattr(function, '__qualname__', function)}"
