"""Dead: the jobs that failed for good, grouped by task and error; run a group again, or delete it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from lockwork.dashboard.formats import ago, several
from lockwork.dashboard.page import Form, Page, ShownText, View
from lockwork.dashboard.reading import read_queues
from lockwork.protocol.queues.dead import DeadGroup, DeadJob
from lockwork.queues.dead import Matching

_LINES = 12
"""Lines at the end of a traceback that the page shows."""
_TRACED = 20
"""Groups that are shown with the traceback of their example."""


@dataclass(frozen=True, slots=True)
class Death:
    """Dead jobs of one queue that have the task and the type of error in common."""

    queue: str
    group: DeadGroup
    message: ShownText
    """The text of the example's error."""
    traceback: str
    """The end of the example's traceback."""

    @property
    def first(self) -> datetime:
        """When the first of them died."""
        return ago(self.group.oldest)

    @property
    def last(self) -> datetime:
        """When the last of them died."""
        return ago(self.group.newest)

    @property
    def example(self) -> DeadJob:
        """The newest of them."""
        return self.group.example

    @property
    def fields(self) -> dict[str, str]:
        """What names the group in a form."""
        return {"queue": self.queue, "error": self.group.error, "task": self.group.task or ""}


async def read(view: View) -> dict[str, Any]:
    """Read the groups of all queues with dead jobs, or of the one that was asked for."""
    wanted = view.param("queue")
    queues = [queue for queue in await read_queues(view.lw) if queue.total("dead")]
    matching = _matching(view.param("task"), "", view.param("text"))
    found = [
        (each.name, partition.name, group)
        for each in queues
        if wanted in ("", each.name)
        for partition in each.partitions
        if partition.status.dead
        for group in await view.lw.queue(partition.name).dead.agroups(**matching)
    ]
    found.sort(key=lambda each: each[2].newest)
    deaths = [
        # a page of dead jobs comes without tracebacks
        _death(view, name, group, await view.lw.queue(home).dead.aget(group.example.id) if at < _TRACED else None)
        for at, (name, home, group) in enumerate(found)
    ]
    return {
        "deaths": deaths,
        "tabs": [("", "All", None), *((each.name, each.name, each.total("dead")) for each in queues)],
        "total": sum(each.group.count for each in deaths),
    }


def _death(view: View, queue: str, group: DeadGroup, whole: DeadJob | None) -> Death:
    error = (whole or group.example).error
    end = "\n".join((error.traceback or "").rstrip().splitlines()[-_LINES:])
    message, trace = (view.text(group.task, "error", text) for text in (error.text, end))
    return Death(queue, group, message, "" if trace.rule else trace)


async def retry(view: View, form: Form) -> str:
    """Run the jobs of a group again."""
    many = 0
    for name in await _partitions(view, form["queue"]):
        many += await view.lw.queue(name).dead.aretry_all(**_matching(form["task"], form["error"]))
    return f"{several(many, 'job runs', 'jobs run')} again: {form['error']} in {form['task']}."


async def delete(view: View, form: Form) -> str:
    """Delete the jobs of a group."""
    many = 0
    for name in await _partitions(view, form["queue"]):
        many += await view.lw.queue(name).dead.adelete_all(**_matching(form["task"], form["error"]))
    return f"Deleted {several(many, 'dead job')}: {form['error']} in {form['task']}."


async def _partitions(view: View, queue: str) -> list[str]:
    return [each.name for found in await read_queues(view.lw) if found.name == queue for each in found.partitions]


def _matching(task: str, error: str, text: str = "") -> Matching:
    wanted: Matching = {}
    if task:
        wanted["task"] = task
    if error:
        wanted["error"] = error
    if text:
        wanted["text"] = text
    return wanted


PAGE = Page("dead", "/dead", "Dead", read, {"retry": retry, "delete": delete}, key="d")
