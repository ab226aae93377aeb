"""Dead: the jobs that failed for good, grouped by task and error; run a group again, or delete it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Struct

from lockwork.dashboard.dead_groups import Group
from lockwork.dashboard.page import Form, Page, ShownText, View
from lockwork.errors import ConfigError
from lockwork.protocol.dead.dead import DeadJob
from lockwork.queues.dead import DeadSet, Matching
from lockwork.words import several

_LINES = 12
"""Number of traceback lines to show, from the end."""
_TRACED = 20
"""Number of groups that show the traceback of their example."""
_GROUPS = 100
"""Maximum groups of a page."""
_LONG = 0.025
"""Maximum seconds that a page reads; it continues with its next request."""


class Death(Struct, frozen=True):
    """A group in its form for the page."""

    group: Group
    queue: str
    error: str
    task: str
    message: ShownText
    """Text of the example's error."""
    spark: list[float | None]

    @property
    def fields(self) -> dict[str, str]:
        """Return the form fields that identify the group and the number of confirmed jobs."""
        return {"queue": self.queue, "error": self.error, "task": self.task, "count": str(self.group.count)}


async def read(view: View) -> dict[str, Any]:
    """Group the dead jobs of all queues, or of the requested queue, that this page has read."""
    queue_name = view.name("queue")
    queues = [queue for queue in await view.queues() if queue.total("dead")]
    meant = [each for each in queues if queue_name in ("", each.name)]
    partitions = [partition.name for queue in meant for partition in queue.partitions if partition.status.dead]
    dead_groups = view.dashboard.dead_groups.get((queue_name, view.param("task"), view.param("text")))
    await dead_groups.read_on(view.lw, partitions, lambda job: _meant(view, job), _LONG)
    groups = dead_groups.groups
    skip = view.number("skip", 0, 10**9)
    skip = skip if skip < len(groups) else 0
    some = groups[skip : skip + _GROUPS]
    await asyncio.gather(*(_trace(view, group) for group in some[:_TRACED] if group.traceback is None))
    first = min((group.first for group in some), default=dead_groups.as_of)
    return {
        "found": dead_groups,
        "deaths": [_shown(view, group, group.spark(first, dead_groups.as_of)) for group in some],
        "place": (skip + 1, skip + len(some), len(groups)),
        "next": {"skip": skip + _GROUPS} if len(groups) > skip + _GROUPS else None,
        "tabs": [("", "All", None), *((each.name, each.name, each.total("dead")) for each in queues)],
        "total": sum(each.total("dead") for each in meant),
    }


def _shown(view: View, group: Group, spark: list[float | None]) -> Death:
    queue, task, error = group.kind
    return Death(group, queue, error, task, view.text(task or None, "error", group.example.error.text), spark)


def _meant(view: View, job: DeadJob) -> bool:
    task, text = view.param("task"), view.param("text")
    if task not in ("", job.call.task):
        return False
    return not text or text in f"{job.error.type}: {view.text(job.call.task, 'error', job.error.text)}"


async def _trace(view: View, group: Group) -> None:
    """Read the end of the example's traceback, which group counts do not include."""
    whole = await view.lw.queue(group.partition).dead.aget(group.example.id)
    end = "\n".join((whole.error.traceback or "").rstrip().splitlines()[-_LINES:]) if whole is not None else ""
    visible_trace = view.text(group.example.call.task, "error", end)
    group.traceback = "" if visible_trace.rule else visible_trace


async def retry(view: View, form: Form) -> str:
    """Run the jobs of a group again."""
    many = await _change(view, form, lambda dead, limit, group: dead.aretry_all(limit=limit, **group))
    return f"{several(many, 'job runs', 'jobs run')} again: {form.get('error', '')} in {form.get('task', '')}."


async def delete(view: View, form: Form) -> str:
    """Delete the jobs of a group."""
    many = await _change(view, form, lambda dead, limit, group: dead.adelete_all(limit=limit, **group))
    return f"Deleted {several(many, 'dead job')}: {form.get('error', '')} in {form.get('task', '')}."


async def _change(view: View, form: Form, change: Callable[[DeadSet, int | None, Matching], Awaitable[int]]) -> int:
    """Change the jobs of the form's group, at most the confirmed number; return their number."""
    queue, task, error = form.get("queue", ""), form.get("task", ""), form.get("error", "")
    count = form.get("count", "")
    if not queue:
        raise ConfigError("No group was named.")
    limit = int(count[:15]) if count.isdecimal() else None
    changed: dict[str, int] = {}
    for queue_overview in await view.queues():
        for partition in queue_overview.partitions if queue_overview.name == queue else ():
            if limit is None or limit > sum(changed.values()):
                most = None if limit is None else limit - sum(changed.values())
                dead = view.lw.queue(partition.name).dead
                changed[partition.name] = await change(dead, most, _matching(task, error))
    view.dashboard.dead_groups.removed((queue, task, error), changed)
    return sum(changed.values())


def _matching(task: str, error: str) -> Matching:
    matching: Matching = {}
    if task:
        matching["task"] = task
    if error:
        matching["error"] = error
    return matching


PAGE = Page("dead", "/dead", "Dead", read, {"retry": retry, "delete": delete}, key="d")
