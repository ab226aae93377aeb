"""Lockwork: the one object that an app holds; composition only."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self, Unpack

from lockwork.app.flows import Flows
from lockwork.app.locks import Fencing, Locks
from lockwork.app.synchronizers import Synchronizers
from lockwork.app.tasks import Tasks
from lockwork.config import Config, Settings
from lockwork.contrib import sqlalchemy as _sqlalchemy  # noqa: F401 - registers its adapter for on_commit
from lockwork.durations import in_milliseconds
from lockwork.jobs.job import FoundJob, Job, Origin
from lockwork.lifespans import Lifespans
from lockwork.protocol.keys import QueueKeys, checked
from lockwork.protocol.queues import browse
from lockwork.protocol.queues.schedules import SchedulePlan
from lockwork.queues.delay_queue import DelayQueue
from lockwork.queues.queue import Queue
from lockwork.queues.stock import Stock
from lockwork.runtime.connect import opener
from lockwork.runtime.runtime import Runtime
from lockwork.tasks.registry import Registry


class Lockwork(Locks, Synchronizers, Fencing, Tasks, Flows):
    """Locks, queues and stocks on one Redis or Valkey server, for threads and asyncio alike.

    Nothing is opened before it is used. Durations are seconds, a `timedelta`, or text such as "10m".

    Args:
        url: redis://, rediss:// or unix://. None (default): LOCKWORK_URL, else a Valkey server of its own in this
        user's
            data folder, which this user's processes share; it stops with the last of them.
        client: a redis-py client whose address to use instead of a URL. Default None.
        prefix: begins every key and channel; apps with different prefixes do not see each other. Default "lw".
        lock_lease: a lock lasts this long unless it is renewed, every third of it. Default 15 s.
        patience: a call keeps trying this long while the server is away, then ServerUnavailable. Default 10 s.
        result_ttl: results are kept at least this long, and at most twice as long. At least 60 s. Default 10 minutes.
        dead_ttl: a dead job is kept this long. Default 30 days.
        dead_limit: dead jobs that a queue keeps; the oldest go first. Default 100,000.
        max_payload: bytes of the encoded arguments of a job. Default 1 MiB.
        max_result: bytes of an encoded result. Default 4 MiB.
        allow_eviction: use a server whose maxmemory-policy may delete our keys. Default False.
        partitions: number of partitions of a queue, such as {"mail": 4}; the same in all processes. Default none.
    """

    def __init__(self, url: str | None = None, *, client: object = None, **settings: Unpack[Settings]) -> None:
        self.config: Config = Config.read(settings)
        self.registry: Registry = Registry()
        self.plans: dict[str, dict[str, SchedulePlan]] = {}
        self._own_plans: dict[str, tuple[str, SchedulePlan]] = {}
        self.lifespans: Lifespans = Lifespans()
        self.runtime: Runtime = Runtime(
            opener(url, client),
            prefix=self.config.prefix,
            patience=self.config.patience,
            allow_eviction=self.config.allow_eviction,
            window_ms=in_milliseconds(self.config.result_ttl),
        )

    def stock(self, name: str, quantity: int, *, limit: int | None = None, queue: str = "default") -> Stock:
        """A stock of units that buyers reserve, confirm or release; it never oversells.

        Args:
            name: names the stock.
            quantity: units for sale when the stock is first used.
            limit: units that one buyer may have; None (default): no limit.
            queue: the queue of jobs that are enqueued in one step with a reservation. Default "default".
        """
        return Stock(self.runtime, self.config, name, quantity, limit=limit, queue=queue)

    def delay_queue(self, name: str) -> DelayQueue:
        """A queue of unique ids in order of time; each is taken by one caller when it is due.

        Args:
            name: names the delay queue.
        """
        return DelayQueue(self.runtime, self.config.prefix, name)

    def queue(self, name: str = "default") -> Queue:
        """The handle of a queue: its status, workers and dead jobs; pause, limit, drain or clear it; its locks.

        Args:
            name: names the queue. Default "default".
        """
        return Queue(self.runtime, self.config, name, self.registry.context.errors)

    def queues(self) -> list[str]:
        """The names of the queues, and of partitions, that ever had a job on this server."""
        return self.runtime.run(browse.find(self.config.prefix))

    async def aqueues(self) -> list[str]:
        """Async version of `queues`."""
        return await self.runtime.arun(browse.find(self.config.prefix))

    def job(self, id: str, queue: str | None = None) -> Job[Any]:
        """Find a job again by its id. `task.job(id)` also knows the type of the result.

        Args:
            id: the job's id.
            queue: the queue of the job; None (default): look in the queues of the app's tasks, and in "default". A job
            that
                was enqueued with a stock or a lock, or by a flow, is in the queue of those.
        """
        partitions, errors = self.config.partitions, self.registry.context.errors
        if queue is None:
            found = [
                name
                for each in {"default": 0, **dict.fromkeys(self.registry.queues())}
                for name in partitions.names(each)
            ]
        else:
            found = [partitions.single(queue, "a job")]
        keys = [QueueKeys(self.config.prefix, name) for name in found]
        return FoundJob([Origin(self.runtime, each, errors=errors) for each in keys], checked(id, "a job's id"))

    def close(self) -> None:
        """Close connections and threads; locks still held end with their lease. A later call opens them again."""
        self.runtime.close()

    async def aclose(self) -> None:
        """Async version of `close`; each event loop that used this object should call it before it ends."""
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
