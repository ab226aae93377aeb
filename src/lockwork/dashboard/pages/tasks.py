"""Tasks: their total times, durations, and failures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from lockwork.dashboard.page import Page, View
from lockwork.telemetry.metrics import MetricPoint


class TaskRow(Struct, frozen=True):
    """Metrics of one task of one queue in the time range."""

    queue: str
    task: str
    point: MetricPoint

    @property
    def attempts(self) -> int:
        """Number of attempts that succeeded or failed."""
        return self.point.succeeded + self.point.failed

    @property
    def failed(self) -> float:
        """Share of attempts that failed."""
        return self.point.failed / self.attempts if self.attempts else 0.0

    @property
    def total(self) -> float:
        """Total seconds of its attempts."""
        return self.point.run.sum


_SORTS: dict[str, Callable[[TaskRow], float | str]] = {
    "task": lambda row: row.task,
    "total": lambda row: row.total,
    "done": lambda row: row.point.succeeded,
    "failed": lambda row: row.failed,
    "dead": lambda row: row.point.dead,
    "wait": lambda row: row.point.wait.quantile(0.95) or 0.0,
    "run": lambda row: row.point.run.quantile(0.95) or 0.0,
}


async def read(view: View) -> dict[str, Any]:
    """Read the metrics of all tasks, in the requested order; by default by total time, descending."""
    rows = most_time((await view.metrics()).tasks)
    chosen = view.param("sort")
    if chosen in _SORTS:
        rows.sort(key=_SORTS[chosen], reverse=view.param("down") == "1")
    return {"rows": rows, "most": max((row.total for row in rows), default=0.0)}


def most_time(found: dict[tuple[str, str], MetricPoint]) -> list[TaskRow]:
    """Return the tasks with ended jobs by total time, descending."""
    rows = [TaskRow(queue, task, point) for (queue, task), point in found.items()]
    rows = [row for row in rows if row.attempts or row.point.cancelled or row.point.expired]
    return sorted(rows, key=lambda row: -row.total)


def done_by_queue(found: dict[tuple[str, str], MetricPoint]) -> dict[str, int]:
    """Count the jobs of each queue that succeeded."""
    done: Counter[str] = Counter()
    for (queue, _), point in found.items():
        done[queue] += point.succeeded
    return done


PAGE = Page("tasks", "/tasks", "Tasks", read, key="t", ranged=True)
