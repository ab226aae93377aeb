"""The methods of `Lockwork` that show what the server has: jobs of all queues, by what they are."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Unpack

from lockwork.app.state import AppState
from lockwork.errors import UnknownTask
from lockwork.jobs import search as job_search
from lockwork.jobs.search import JobFilter, JobPage
from lockwork.protocol.effects import Protocol
from lockwork.protocol.keys import QueueKeys, base_queue, checked_queue
from lockwork.protocol.queues import browse, search
from lockwork.protocol.queues.search import StoredPage
from lockwork.telemetry import metrics as task_metrics
from lockwork.telemetry.metrics import Point, Series, Span


class MonitoringMethods(AppState):
    """Views of jobs for people and programs; they read in bounded steps, and change nothing."""

    def jobs(
        self,
        queue: str | None = None,
        *,
        limit: int = 50,
        after: str | None = None,
        newest: bool = True,
        budget: int = 1000,
        **matching: Unpack[JobFilter],
    ) -> JobPage:
        """Read up to `limit` jobs that match (see JobFilter): running, ready, scheduled, blocked, ended, in this order.

        The newest come first; of the scheduled ones, the next due. Jobs that move meanwhile may be missed, or be shown
        twice. Raises ConfigError.

        Args:
            queue: the name of a queue, or of a partition; None (default): all queues on the server.
            limit: jobs of a page, at most 1,000. Default 50.
            after: the `next` of the page before.
            newest: False for the other order.
            budget: records that are searched for the page, about. Default 1,000. With none found, go on after `next`.
        """
        return job_search.page(self.runtime.run(self._jobs(queue, limit, after, newest, budget, matching)))

    async def ajobs(
        self,
        queue: str | None = None,
        *,
        limit: int = 50,
        after: str | None = None,
        newest: bool = True,
        budget: int = 1000,
        **matching: Unpack[JobFilter],
    ) -> JobPage:
        """Async version of `jobs`."""
        return job_search.page(await self.runtime.arun(self._jobs(queue, limit, after, newest, budget, matching)))

    def _jobs(
        self, queue: str | None, limit: int, after: str | None, newest: bool, budget: int, matching: JobFilter
    ) -> Protocol[StoredPage]:
        wanted = job_search.read_filter(matching, newest, self._parameters)
        most, records = job_search.read_limits(limit, budget)
        cursors = job_search.read_cursor(after)
        return self._found(None if queue is None else checked_queue(queue), wanted, cursors, most, records)

    def _found(
        self,
        queue: str | None,
        wanted: search.Wanted,
        after: dict[tuple[str, str], list[str] | None],
        limit: int,
        budget: int,
    ) -> Protocol[StoredPage]:
        names = yield from self._queue_names(queue)
        keys = [QueueKeys(self.config.prefix, name) for name in names]
        return (yield from search.search(keys, wanted, after, limit, budget))

    def _queue_names(self, queue: str | None) -> Protocol[list[str]]:
        """Return the queues and partitions that are meant."""
        if queue is not None and ("/" in queue or queue in self.config.partitions):
            return self.config.partitions.names(queue)
        found = yield from browse.find(self.config.prefix)
        return [name for name in found if queue is None or base_queue(name) == queue]

    def _parameters(self, task: str) -> Sequence[str]:
        """Return the names of a task's parameters, as far as this app has the task."""
        try:
            return list(inspect.signature(self.registry.get(task).function).parameters)
        except (UnknownTask, ValueError, TypeError):
            return ()

    def metrics(self, queue: str | None = None, task: str | None = None, *, span: Span = "1h") -> Series:
        """Counts and times of jobs by minute ("15m", "1h") or by hour ("24h", "7d"), over all workers and partitions.

        Args:
            queue: the queue, or one partition as "mail/0"; None (default): all queues of the server.
            task: the name of the task; None (default): all tasks.
            span: how far back: "15m", "1h" (default), "24h" or "7d".
        """
        return self.runtime.run(task_metrics.series(self.config.prefix, queue, task, span))

    async def ametrics(self, queue: str | None = None, task: str | None = None, *, span: Span = "1h") -> Series:
        """Async version of `metrics`."""
        return await self.runtime.arun(task_metrics.series(self.config.prefix, queue, task, span))

    def task_metrics(self, *, span: Span = "1h") -> dict[tuple[str, str], Point]:
        """Counts and times of the whole span by queue and task: which are slow, which fail, which take the most time.

        A queue counts 200 tasks by their names, and others as "(other)". `span` is that of `metrics`.
        """
        return self.runtime.run(task_metrics.by_task(self.config.prefix, span))

    async def atask_metrics(self, *, span: Span = "1h") -> dict[tuple[str, str], Point]:
        """Async version of `task_metrics`."""
        return await self.runtime.arun(task_metrics.by_task(self.config.prefix, span))

    def queue_ages(self) -> dict[str, float]:
        """For each queue, how many seconds its oldest ready job has waited, about; 0 when none is ready."""
        return self.runtime.run(task_metrics.queue_ages(self.config.prefix))

    async def aqueue_ages(self) -> dict[str, float]:
        """Async version of `queue_ages`."""
        return await self.runtime.arun(task_metrics.queue_ages(self.config.prefix))
