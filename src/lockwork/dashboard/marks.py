"""Events on a chart: pauses of queues, and starts of workers."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from lockwork.dashboard.charts import Mark
from lockwork.inspection.queue_state import QueueOverview
from lockwork.words import duration, several
from lockwork.workers import Worker

_MOST = 6
"""Maximum marks on a chart."""
_TOGETHER = timedelta(minutes=1)
"""Workers that start within this time of each other share one mark."""
_AT_ONCE = timedelta(seconds=1)
"""Partitions of a queue that are paused within this time of each other share one mark."""


def marks(queues: Sequence[QueueOverview], workers: Sequence[Worker]) -> list[Mark]:
    """Return the pauses of queues and the starts of workers, as in a deploy; the newest first."""
    all_marks = [
        Mark(min(since.values()), "blocked", f"Queue {_part(queue, list(since))} paused")
        for queue in queues
        if (since := {each.name: each.paused for each in queue.partitions if each.paused})
    ]
    for queue in queues:
        last = None
        for began, ended in sorted(pause for each in queue.partitions for pause in each.pauses):
            if last is None or began - last > _AT_ONCE:
                lasted = duration((ended - began).total_seconds())
                all_marks.append(Mark(began, "blocked", f"Queue {queue.name} paused for {lasted}"))
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
        all_marks.append(Mark(group[0].started, "running", text))
        before = versions
    return sorted(all_marks, key=lambda mark: mark.at, reverse=True)[:_MOST]


def _part(queue: QueueOverview, names: list[str]) -> str:
    """Name a queue, or the affected partitions."""
    if len(names) == len(queue.partitions):
        return queue.name
    return names[0] if len(names) == 1 else f"{queue.name}, {len(names)} of {len(queue.partitions)} partitions,"
