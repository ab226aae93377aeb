"""The methods of `Lockwork` for queues, stocks, delay queues and single jobs."""

from __future__ import annotations

from typing import Any

from lockwork.app.state import AppState
from lockwork.jobs.found import FoundJob
from lockwork.jobs.job import Job, Origin
from lockwork.protocol.keys import QueueKeys, checked
from lockwork.protocol.queues import browse
from lockwork.queues.delay_queue import DelayQueue
from lockwork.queues.queue import Queue
from lockwork.queues.stock import Stock, StockSummary, stocks


class QueueMethods(AppState):
    """Handles of queues, jobs, stocks and delay queues."""

    def stock(self, name: str, quantity: int, *, limit: int | None = None, queue: str = "default") -> Stock:
        """A stock of units that buyers reserve, confirm or release; it never oversells.

        Args:
            name: names the stock.
            quantity: units for sale when the stock is first used.
            limit: units that one buyer may have; None (default): no limit.
            queue: the queue of the jobs that are enqueued together with its reservations. Default "default".
        """
        announcing = self.registry.context.announcing
        return Stock(self.runtime, self.config, announcing, name, quantity, limit=limit, queue=queue)

    def stocks(self, *, minutes: int = 0) -> list[StockSummary]:
        """List the stocks on this server and their units by place, read one after the other, without changing them.

        With `minutes`, up to 60, also return the units that the first 100 stocks reserved and sold in each of the last
        minutes.
        """
        return self.runtime.run(stocks(self.config.prefix, minutes))

    async def astocks(self, *, minutes: int = 0) -> list[StockSummary]:
        """Async version of `stocks`."""
        return await self.runtime.arun(stocks(self.config.prefix, minutes))

    def delay_queue(self, name: str) -> DelayQueue:
        """A queue of unique ids in order of due time; each id is taken by one caller.

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
        """The names of all queues and partitions that ever had a job on this server, or that a worker serves."""
        return self.runtime.run(browse.find(self.config.prefix))

    async def aqueues(self) -> list[str]:
        """Async version of `queues`."""
        return await self.runtime.arun(browse.find(self.config.prefix))

    def job(self, id: str, queue: str | None = None) -> Job[Any]:
        """Return the handle of an existing job. `task.job(id)` also has the type of the result.

        Args:
            id: the job's id.
            queue: the queue of the job; None (default): search the queues of the app's tasks and "default", then all
                others on the server. A job that was enqueued with a stock or a lock, or by a flow, is in the queue of
                that object.
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
        origins = [Origin(self.runtime, each, errors=errors) for each in keys]
        return FoundJob(origins, checked(id, "a job's id"), everywhere=queue is None)
