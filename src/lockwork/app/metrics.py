"""The methods of `Lockwork` for metrics."""

from __future__ import annotations

from lockwork.app.state import AppState
from lockwork.telemetry import metrics
from lockwork.telemetry.metrics import Point, Series, Span


class MetricsMethods(AppState):
    """Counts and times of jobs, as the server keeps them."""

    def metrics(self, queue: str | None = None, task: str | None = None, *, span: Span = "1h") -> Series:
        """Counts and times of jobs by minute ("15m", "1h") or by hour ("24h", "7d"), over all workers and partitions.

        Args:
            queue: the queue, or one partition as "mail/0"; None (default): all queues of the server.
            task: the name of the task; None (default): all tasks.
            span: how far back: "15m", "1h" (default), "24h" or "7d".
        """
        return self.runtime.run(metrics.series(self.config.prefix, queue, task, span))

    async def ametrics(self, queue: str | None = None, task: str | None = None, *, span: Span = "1h") -> Series:
        """Async version of `metrics`."""
        return await self.runtime.arun(metrics.series(self.config.prefix, queue, task, span))

    def task_metrics(self, *, span: Span = "1h") -> dict[tuple[str, str], Point]:
        """Counts and times of the whole span by queue and task, to find slow, failing and expensive tasks.

        A queue counts 200 tasks by name, and all others as "(other)". `span` is the same as in `metrics`.
        """
        return self.runtime.run(metrics.by_task(self.config.prefix, span))

    async def atask_metrics(self, *, span: Span = "1h") -> dict[tuple[str, str], Point]:
        """Async version of `task_metrics`."""
        return await self.runtime.arun(metrics.by_task(self.config.prefix, span))

    def queue_ages(self) -> dict[str, float]:
        """For each queue, estimate how many seconds its oldest ready job has waited; 0 if no job is ready."""
        return self.runtime.run(metrics.queue_ages(self.config.prefix))

    async def aqueue_ages(self) -> dict[str, float]:
        """Async version of `queue_ages`."""
        return await self.runtime.arun(metrics.queue_ages(self.config.prefix))
