"""Overview: what is wrong, how much is done, the queues, and the tasks that take the most time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from lockwork.dashboard.charts import Mark, stacked
from lockwork.dashboard.formats import duration, several
from lockwork.dashboard.page import Page, View
from lockwork.dashboard.reading import QueueSummary, read_queues
from lockwork.doctor import afindings
from lockwork.telemetry.metrics import Point, Series, Span
from lockwork.workers import Worker

_MARKS = 6
"""Marks on the chart."""
_TOGETHER = timedelta(minutes=1)
"""Workers that start within this time of each other are one mark."""
_AT_ONCE = timedelta(seconds=1)
"""Partitions of a queue that are paused within this time of each other are one mark."""
_TASKS = 8
"""Tasks that the page shows."""
_PARTS = (("done", "succeeded"), ("retried", "retried"), ("dead", "dead"))
"""What the chart stacks: its words, and fields of Point."""


@dataclass(frozen=True, slots=True)
class Speeds:
    """Jobs a second now, and by bucket of the time range."""

    done: float
    failed: float
    done_spark: list[float | None]
    failed_spark: list[float | None]


async def read(view: View) -> dict[str, Any]:
    """Read the queues, their metrics, and the tasks."""
    span = cast("Span", view.span)
    queues, series, tasks, ages, workers, findings = await asyncio.gather(
        read_queues(view.lw),
        view.lw.ametrics(span=span),
        view.lw.atask_metrics(span=span),
        view.lw.aqueue_ages(),
        view.lw.aworkers(),
        afindings(view.lw),
    )
    everything = QueueSummary("", [each for queue in queues for each in queue.partitions])
    oldest = max(ages.items(), key=lambda each: each[1], default=("", 0.0))
    return {
        "findings": findings,
        "queues": queues,
        "everything": everything,
        "oldest": oldest,
        "slots": sum(worker.slots for worker in workers if worker.alive),
        "series": series,
        "speeds": _speeds(series),
        "chart": stacked(series.points, _PARTS, _marks(queues, workers)),
        "tasks": _most_time(tasks),
        "waits": [point.wait.quantile(0.95) for point in series.points],
        "runs": [point.run.quantile(0.95) for point in series.points],
    }


def _marks(queues: Sequence[QueueSummary], workers: Sequence[Worker]) -> list[Mark]:
    """Return when queues were paused, and when workers started, as a deploy does; the newest first."""
    marks = [
        Mark(min(since), "blocked", f"Queue {queue.name} paused")
        for queue in queues
        if (since := [each.paused for each in queue.partitions if each.paused])
    ]
    for queue in queues:
        last = None
        for began, ended in sorted(pause for each in queue.partitions for pause in each.pauses):
            if last is None or began - last > _AT_ONCE:
                lasted = duration((ended - began).total_seconds())
                marks.append(Mark(began, "blocked", f"Queue {queue.name} paused for {lasted}"))
            last = began
    groups: list[list[Worker]] = []
    for worker in sorted(workers, key=lambda worker: worker.started):
        if not groups or worker.started - groups[-1][-1].started > _TOGETHER:
            groups.append([])
        groups[-1].append(worker)
    before: set[str] = set()
    for group in groups:
        versions, text = {worker.version for worker in group}, several(len(group), "worker") + " started"
        if of_app := {worker.app_version for worker in group if worker.app_version}:
            text += f", version {' and '.join(sorted(of_app))}"
        if before and versions != before:
            text += f", Lockwork {' and '.join(sorted(versions))}"
        marks.append(Mark(group[0].started, "running", text))
        before = versions
    return sorted(marks, key=lambda mark: mark.at, reverse=True)[:_MARKS]


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


def _most_time(tasks: dict[tuple[str, str], Point]) -> list[tuple[str, str, Point, float]]:
    """Return queue, task, counts and the failed share of the tasks that took the most time, the first first."""
    rows = [
        (queue, task, point, point.failed / attempts)
        for (queue, task), point in tasks.items()
        if (attempts := point.succeeded + point.failed)
    ]
    return sorted(rows, key=lambda row: -row[2].run.sum)[:_TASKS]


PAGE = Page("overview", "/", "Overview", read, key="o", ranged=True, charts=True)
