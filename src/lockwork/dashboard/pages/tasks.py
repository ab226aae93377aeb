"""Tasks: which take the most time, which are slow, and which fail."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lockwork.dashboard.page import Page, View
from lockwork.telemetry.metrics import Point


@dataclass(frozen=True, slots=True)
class TaskRow:
    """What one task of one queue did in the time range."""

    queue: str
    task: str
    point: Point

    @property
    def attempts(self) -> int:
        """Attempts that succeeded or failed."""
        return self.point.succeeded + self.point.failed

    @property
    def failed(self) -> float:
        """The share of the attempts that failed."""
        return self.point.failed / self.attempts if self.attempts else 0.0

    @property
    def total(self) -> float:
        """Seconds that its attempts took together."""
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
    """Read what all tasks did, sorted as asked: those first that took the most time."""
    rows = most_time(await view.task_metrics())
    chosen = view.param("sort")
    if chosen in _SORTS:
        rows.sort(key=_SORTS[chosen], reverse=view.param("down") == "1")
    return {"rows": rows, "most": max((row.total for row in rows), default=0.0)}


def most_time(found: dict[tuple[str, str], Point]) -> list[TaskRow]:
    """Return the tasks of which a job ended, those first that took the most time."""
    rows = [TaskRow(queue, task, point) for (queue, task), point in found.items()]
    rows = [row for row in rows if row.attempts or row.point.cancelled or row.point.expired]
    return sorted(rows, key=lambda row: -row.total)


def done_by_queue(found: dict[tuple[str, str], Point]) -> dict[str, int]:
    """Count the jobs of each queue that succeeded."""
    done: Counter[str] = Counter()
    for (queue, _), point in found.items():
        done[queue] += point.succeeded
    return done


PAGE = Page("tasks", "/tasks", "Tasks", read, key="t", ranged=True)
