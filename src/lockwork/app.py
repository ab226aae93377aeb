"""Lockwork: the one object that an app holds; composition only."""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, ParamSpec, Protocol, Self, TypeVar, Unpack, overload

from lockwork import tasks
from lockwork.config import Config, Settings
from lockwork.delay_queues import DelayQueue
from lockwork.errors import ConfigError
from lockwork.fencing.factory import Fencing
from lockwork.flows import Flows
from lockwork.jobs import Job
from lockwork.locks.factory import Locks
from lockwork.protocol import waiting
from lockwork.protocol.keys import QueueKeys, checked, checked_queue
from lockwork.protocol.schedules import Plan
from lockwork.queues import Queue
from lockwork.runtime.endpoint import Endpoint
from lockwork.runtime.runtime import Opened, Runtime
from lockwork.schedules.factory import Schedules
from lockwork.schedules.options import ScheduledTaskSettings, call_without_arguments, split
from lockwork.stocks import Stock
from lockwork.synchronizers.factory import Synchronizers
from lockwork.tasks import Registry, Task, TaskOptions

P = ParamSpec("P")
R = TypeVar("R")


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
        self.runtime: Runtime = Runtime(
            _opener(url, client),
            prefix=self.config.prefix,
            patience=self.config.patience,
            allow_eviction=self.config.allow_eviction,
            window_ms=int(self.config.result_ttl * 1000),
        )

    def stock(self, name: str, quantity: int, *, limit: int | None = None, queue: str = "default") -> Stock:
        """A stock that opens with `quantity` units when first used; `limit` is how many one buyer may have."""
        return Stock(self.runtime, self.config.prefix, name, quantity, limit=limit, queue=queue)

    def delay_queue(self, name: str) -> DelayQueue:
        """Unique ids in time order, each taken by one caller when it is due."""
        return DelayQueue(self.runtime, self.config.prefix, name)

    def queue(self, name: str = "default") -> Queue:
        """A queue, to look at: what is where, what waits, who works, and its dead jobs."""
        return Queue(self.runtime, self.config.prefix, name, result_ttl=self.config.result_ttl)

    def queues(self) -> list[str]:
        """The names of the queues that ever had a job on this server."""
        return self.runtime.run(waiting.find(self.config.prefix))

    async def aqueues(self) -> list[str]:
        """The same for a task."""
        return await self.runtime.arun(waiting.find(self.config.prefix))

    def job(self, id: str, queue: str = "default") -> Job[Any]:
        """A job that was enqueued elsewhere, found again by its id."""
        name = checked_queue(queue)
        return Job(self.runtime, QueueKeys(self.config.prefix, name), name, checked(id, "a job's id"))

    @overload
    def task(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> Task[P, R, Coroutine[Any, Any, R]]: ...
    @overload
    def task(self, function: Callable[P, R], /) -> Task[P, R, R]: ...
    @overload
    def task(self, function: None = None, /, **options: Unpack[ScheduledTaskSettings]) -> _Decorator: ...

    def task(self, function: Callable[..., Any] | None = None, /, **options: Unpack[ScheduledTaskSettings]) -> Any:
        """Register a function, `async def` or `def`, to be run by workers; `def` runs in a thread there.

        For the options see lockwork.tasks.TaskSettings; with `cron` or `every`, and what else
        lockwork.schedules.options.ScheduleSettings has, it is also enqueued by the clock. Raises ConfigError.
        """
        own, timing = split(options)
        chosen = TaskOptions.read(own)
        name = own.get("name")

        def register(function: Callable[..., Any]) -> Task[Any, Any, Any]:
            gathering = self.registry.gathering(self.runtime, QueueKeys(self.config.prefix, chosen.queue))
            task = Task[Any, Any, Any](gathering, self.config, tasks.task_name(function, name), function, chosen)
            self.registry.add(task)
            if timing:
                self.schedule(call_without_arguments(task), name=task.name, **timing)
            return task

        return register if function is None else register(function)

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
