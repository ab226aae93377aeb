"""Lockwork: the one object that an app holds; composition only."""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractContextManager
from functools import partial
from types import TracebackType
from typing import Any, ParamSpec, Protocol, Self, TypeVar, Unpack, overload

from lockwork import registry
from lockwork.batch_tasks import BatchTask
from lockwork.batches import Batching, BatchSettings
from lockwork.config import Config, Settings, check_names
from lockwork.delay_queues import DelayQueue
from lockwork.durations import Duration
from lockwork.errors import ConfigError
from lockwork.failures import ErrorClass
from lockwork.fencing.factory import Fencing
from lockwork.flows import Flows
from lockwork.hooks import Hooks
from lockwork.jobs import Job, Origin
from lockwork.lifespans import L, Lifespans
from lockwork.locks.factory import Locks
from lockwork.partitions.queue import PartitionedQueue
from lockwork.partitions.tasks import PartitionedBatchTask, PartitionedTask
from lockwork.protocol import waiting
from lockwork.protocol.keys import QueueKeys, checked
from lockwork.protocol.schedules import Plan
from lockwork.queues import Queue
from lockwork.registry import Registry
from lockwork.runtime.endpoint import Endpoint
from lockwork.runtime.runtime import Opened, Runtime
from lockwork.schedules.factory import Schedules
from lockwork.schedules.options import ScheduledTaskSettings, call_without_arguments, split
from lockwork.stocks import Stock
from lockwork.synchronizers.factory import Synchronizers
from lockwork.task_settings import CallSettings, TaskOptions
from lockwork.tasks import Task

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class Lockwork(Locks, Synchronizers, Fencing, Schedules, Flows):
    """Locks, queues and stocks on one Redis or Valkey server, for threads and asyncio alike.

    `url` is redis://, rediss:// or unix://; without one, LOCKWORK_URL, else a Valkey server of its own in this user's
    data folder, shared by this user's processes and stopped with the last of them. Nothing is opened before it is used.
    `client` takes the address of an existing redis-py client instead. For the settings see lockwork.config.Config.
    """

    def __init__(self, url: str | None = None, *, client: object = None, **settings: Unpack[Settings]) -> None:
        self.config: Config = Config.read(settings)
        self.registry: Registry = Registry()
        self.plans: dict[str, dict[str, Plan]] = {}
        self.lifespans: Lifespans = Lifespans()
        self.runtime: Runtime = Runtime(
            _opener(url, client),
            prefix=self.config.prefix,
            patience=self.config.patience,
            allow_eviction=self.config.allow_eviction,
            window_ms=int(self.config.result_ttl * 1000),
        )

    def stock(self, name: str, quantity: int, *, limit: int | None = None, queue: str = "default") -> Stock:
        """A stock that opens with `quantity` units when first used; `limit` is how many one buyer may have."""
        return Stock(self.runtime, self.config, name, quantity, limit=limit, queue=queue)

    def delay_queue(self, name: str) -> DelayQueue:
        """Unique ids in time order, each taken by one caller when it is due."""
        return DelayQueue(self.runtime, self.config.prefix, name)

    def queue(self, name: str = "default") -> Queue:
        """A queue: to look at (what is where, who works, its dead jobs), to pause, limit, drain or clear; its locks."""
        kind = PartitionedQueue if name in self.config.partitions else Queue
        return kind(self.runtime, self.config, name, self.registry.around.errors)

    def queues(self) -> list[str]:
        """The names of the queues, and of partitions, that ever had a job on this server."""
        return self.runtime.run(waiting.find(self.config.prefix))

    async def aqueues(self) -> list[str]:
        """The same for a task."""
        return await self.runtime.arun(waiting.find(self.config.prefix))

    def job(self, id: str, queue: str = "default") -> Job[Any]:
        """A job that was enqueued elsewhere, found again by its id, and its `queue`."""
        name = self.config.partitions.single(queue, "a job")
        origin = Origin(self.runtime, QueueKeys(self.config.prefix, name), errors=self.registry.around.errors)
        return Job(origin, checked(id, "a job's id"), "kept")

    @overload
    def task(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> Task[P, R, Coroutine[Any, Any, R]]: ...
    @overload
    def task(self, function: Callable[P, R], /) -> Task[P, R, R]: ...
    @overload
    def task(self, function: None = None, /, **options: Unpack[ScheduledTaskSettings]) -> _Decorator: ...
    @overload
    def task(
        self, function: None = None, /, *, batch: int, linger: Duration = ..., **options: Unpack[ScheduledTaskSettings]
    ) -> _BatchDecorator: ...

    def task(
        self,
        function: Callable[..., Any] | None = None,
        /,
        *,
        batch: int | None = None,
        linger: Duration | None = None,
        **options: Unpack[ScheduledTaskSettings],
    ) -> Any:
        """Register a function, `async def` or `def`, to be run by workers; `def` runs in a thread there.

        With `batch`, one call runs up to so many jobs: see lockwork.batches.BatchSettings.
        For the other options see lockwork.task_settings.TaskSettings; with `cron` or `every`, and what else
        lockwork.schedules.options.ScheduleSettings has, it is also enqueued by the clock. Raises ConfigError.
        """
        single = CallSettings, "it is for single jobs: task.options(...) has it"
        check_names(options, _TaskSettings, "a task has no option", single)
        batching = Batching.read(batch, linger)
        own, timing = split(options)
        chosen = TaskOptions.read(own)
        if batching is not None and chosen.in_process:
            raise ConfigError('a batch task cannot have executor="process": its jobs meet in the worker process')
        name = own.get("name")

        def register(function: Callable[..., Any]) -> Task[Any, Any, Any]:
            called = registry.task_name(function, name)
            task = self._made(called, function, chosen, batching)
            self.registry.add(task)
            if timing:
                self.schedule(call_without_arguments(task), name=task.name, **timing)
            return task

        return register if function is None else register(function)

    def _made(
        self, name: str, function: Callable[..., Any], options: TaskOptions, batching: Batching | None
    ) -> Task[Any, Any, Any]:
        partitions, around = self.config.partitions, self.registry.around
        places = [
            self.registry.gathering(self.runtime, QueueKeys(self.config.prefix, each))
            for each in partitions.names(options.queue)
        ]
        parts = self.config, name, function, options, around
        if options.queue in partitions:
            if batching is None:
                return PartitionedTask(places, *parts)
            return PartitionedBatchTask(places, *parts, batching)
        return Task(places[0], *parts) if batching is None else BatchTask(places[0], *parts, batching)

    @property
    def hooks(self) -> Hooks:
        """Decorators for functions that are told what becomes of jobs: `@lw.hooks.dead`, and so on."""
        return self.registry.around.hooks

    def lifespan(self, function: L, /) -> L:
        """Decorate a generator, `async def` or `def`, to set up what each worker process needs, and to take it down.

        It takes no arguments and yields once, between the two. When it fails to begin, the worker stops.
        """
        return self.lifespans.add(function)

    @overload
    def error(self, error: ErrorClass, /) -> ErrorClass: ...
    @overload
    def error(self, error: None = None, /, *, name: str) -> Callable[[ErrorClass], ErrorClass]: ...

    def error(self, error: Any = None, /, *, name: str | None = None) -> Any:
        """Register an exception class, as a decorator or by call: `job.result()` raises it when a task raised it.

        All others arrive as JobFailed. Arguments and attributes travel as JSON; `__init__` does not run again.
        """
        errors = self.registry.around.errors
        return partial(errors.add, name=name) if error is None else errors.add(error, name)

    def override(self, provider: Callable[..., Any], instead: Callable[..., Any]) -> AbstractContextManager[None]:
        """Within the `with` block, inject what `instead` provides wherever `provider` would have; for tests."""
        return self.registry.around.overrides.put(provider, instead)

    def close(self) -> None:
        """Close connections and threads; locks still held end with their lease. A later call opens them again."""
        self.runtime.close()

    async def aclose(self) -> None:
        """The same for a task; each event loop that used this object should call it before it ends."""
        await self.runtime.aclose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class _TaskSettings(ScheduledTaskSettings, BatchSettings):
    """All that `task` takes."""


class _BatchDecorator(Protocol):
    """What `task(batch=...)` returns."""

    @overload
    def __call__(
        self, function: Callable[[list[T]], Coroutine[Any, Any, None]], /
    ) -> BatchTask[T, None, Coroutine[Any, Any, None]]: ...
    @overload
    def __call__(
        self, function: Callable[[list[T]], Coroutine[Any, Any, Sequence[R | Exception]]], /
    ) -> BatchTask[T, R, Coroutine[Any, Any, Sequence[R | Exception]]]: ...
    @overload
    def __call__(self, function: Callable[[list[T]], None], /) -> BatchTask[T, None, None]: ...
    @overload
    def __call__(
        self, function: Callable[[list[T]], Sequence[R | Exception]], /
    ) -> BatchTask[T, R, Sequence[R | Exception]]: ...


class _Decorator(Protocol):
    """What `task(...)` with options returns."""

    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> Task[P, R, Coroutine[Any, Any, R]]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Task[P, R, R]: ...


def _opener(url: str | None, client: object) -> Callable[[], Opened]:
    if url is not None and client is not None:
        raise ConfigError("give a URL or a client, not both")
    if client is not None:
        endpoint = Endpoint.from_client(client)
        return lambda: (endpoint, _nothing)
    if url is not None and not url:
        raise ConfigError("the server's URL is empty: give none to use LOCKWORK_URL or the embedded server")
    given = url or os.environ.get("LOCKWORK_URL")
    if given:
        endpoint = Endpoint.from_url(given)
        return lambda: (endpoint, _nothing)
    return _open_embedded


def _open_embedded() -> Opened:
    from lockwork.runtime import embedded  # noqa: PLC0415 - most apps give a URL and never need it

    server = embedded.open_shared()
    return Endpoint.from_url(server.url), server.close


def _nothing() -> None:
    return None
