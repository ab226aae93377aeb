"""Overview: what is wrong, how much is done, the queues, and the tasks that take the most time."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from lockwork.dashboard.charts import PARTS, stacked
from lockwork.dashboard.marks import marks
from lockwork.dashboard.page import Page, View
from lockwork.dashboard.pages.tasks import done_by_queue, most_time
from lockwork.dashboard.reading import QueueSummary, read_queues
from lockwork.doctor import Finding, afindings
from lockwork.telemetry.metrics import Series

_TASKS = 8
"""Tasks that the page shows."""


@dataclass(frozen=True, slots=True)
class Speeds:
    """Jobs a second now, and by bucket of the time range."""

    done: float
    failed: float
    done_spark: list[float | None]
    failed_spark: list[float | None]


async def read(view: View) -> dict[str, Any]:
    """Read the queues, their metrics, and the tasks."""
    queues, series, tasks, ages, workers, findings = await asyncio.gather(
        read_queues(view.lw),
        view.series(),
        view.task_metrics(),
        view.lw.aqueue_ages(),
        view.lw.aworkers(),
        _findings(view),
    )
    everything = QueueSummary("", [each for queue in queues for each in queue.partitions])
    oldest = max(ages.items(), key=lambda each: each[1], default=("", 0.0))
    return {
        "findings": findings,
        "queues": queues,
        "everything": everything,
        "ages": ages,
        "done": done_by_queue(tasks),
        "oldest": oldest,
        "slots": sum(worker.slots for worker in workers if worker.alive),
        "series": series,
        "speeds": _speeds(series),
        "chart": stacked(series.points, PARTS, marks(queues, workers)),
        "tasks": most_time(tasks)[:_TASKS],
        "waits": [point.wait.quantile(0.95) for point in series.points],
        "runs": [point.run.quantile(0.95) for point in series.points],
    }


async def _findings(view: View) -> list[Finding]:
    deadlocks, found = await asyncio.gather(view.dashboard.deadlocks.read(view.lw), afindings(view.lw))
    return deadlocks + found


def _speeds(series: Series) -> Speeds:
    """Compute speeds; "now" is the last bucket that is over and the one that is not."""
    last = series.points[-2:]
    since = (datetime.now(UTC) - last[0].at).total_seconds()
    seconds = max(1.0, min(since, sum(point.seconds for point in last)))
    return Speeds(
        sum(point.succeeded for point in last) / seconds,
        sum(point.failed for point in last) / seconds,
        [point.succeeded / point.seconds for point in series.points[:-1]],
        [point.failed / point.seconds for point in series.points[:-1]],
    )


PAGE = Page("overview", "/", "Overview", read, key="o", ranged=True, charts=True)
