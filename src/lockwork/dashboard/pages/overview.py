"""Overview: findings, throughput, the queues, and the tasks that take the most time."""

from __future__ import annotations

import asyncio
from typing import Any

from msgspec import Struct

from lockwork.dashboard.charts import PARTS, stacked
from lockwork.dashboard.marks import marks
from lockwork.dashboard.page import Page, View
from lockwork.dashboard.pages.tasks import done_by_queue, most_time
from lockwork.doctor.findings import CHECKED_PARTS, findings_of
from lockwork.inspection.queue_state import QueueOverview
from lockwork.telemetry.metrics import MetricSeries, speed

_TASKS = 8
"""Number of tasks to show."""


class Now(Struct, frozen=True):
    """Rates and times of the last two minutes."""

    done: float
    """Jobs per second."""
    failed: float
    """Attempts per second."""
    wait: float | None
    """95th percentile of wait times, in seconds."""
    run: float | None


async def read(view: View) -> dict[str, Any]:
    """Read the queues, their metrics, and the tasks."""
    overview, metrics, minutes = await asyncio.gather(
        view.overview(CHECKED_PARTS), view.metrics(), view.activity("15m")
    )
    queues, workers = overview.queues, overview.workers
    points = metrics.part.points
    return {
        "findings": findings_of(overview),
        "queues": queues,
        "everything": QueueOverview("", overview.partitions),
        "done": done_by_queue(metrics.tasks),
        "oldest": max(queues, key=lambda queue: queue.oldest.seconds, default=None),
        "slots": sum(worker.slots for worker in workers if worker.alive),
        "total": metrics.part.total,
        "now": _now(minutes.latest(2).series()),
        "chart": stacked(metrics.whole.points, metrics.part, PARTS, marks(queues, workers)),
        "tasks": most_time(metrics.tasks)[:_TASKS],
        "sparks": {
            "done": [point.succeeded for point in points],
            "failed": [point.failed for point in points],
            "wait": [point.wait.quantile(0.95) for point in points],
            "run": [point.run.quantile(0.95) for point in points],
        },
    }


def _now(minutes: MetricSeries) -> Now:
    """Compute rates of the last minute and the current one."""
    done, failed = speed(minutes.points)
    return Now(done, failed, minutes.total.wait.quantile(0.95), minutes.total.run.quantile(0.95))


PAGE = Page("overview", "/", "Overview", read, key="o", ranged=True, charts=True)
