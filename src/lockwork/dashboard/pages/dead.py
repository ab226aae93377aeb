"""Dead: the jobs that failed for good, grouped by task and error; run a group again, or delete it."""

from __future__ import annotations

import asyncio
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from lockwork.dashboard.formats import ago, several
from lockwork.dashboard.page import Form, Page, ShownText, View
from lockwork.dashboard.reading import read_queues
from lockwork.errors import ConfigError
from lockwork.protocol.queues.dead import DeadJob
from lockwork.queues.dead import Matching

_LINES = 12
"""Lines at the end of a traceback that the page shows."""
_TRACED = 20
"""Groups that are shown with the traceback of their example."""
_GROUPS = 100
"""Groups that a page shows."""
_READ = 1000
"""Dead jobs that a page reads, the newest, of all partitions together."""
_LEAST = 50
"""Dead jobs that it reads of each partition at least."""
_BARS = 24
"""Parts of the time in which a sparkline counts."""


@dataclass(slots=True)
class Death:
    """Dead jobs of one queue that have the task and the type of error in common."""

    queue: str
    partition: str
    """That of the example."""
    error: str
    task: str
    example: DeadJob
    """The newest of them."""
    message: ShownText
    """The text of the example's error."""
    traceback: str = ""
    """The end of the example's traceback."""
    ages: list[float] = field(default_factory=list[float])
    """Seconds since each of them died."""

    @property
    def count(self) -> int:
        """How many there are, of those that were read."""
        return len(self.ages)

    @property
    def first(self) -> datetime:
        """When the first of them died."""
        return ago(max(self.ages))

    @property
    def last(self) -> datetime:
        """When the last of them died."""
        return ago(min(self.ages))

    def spark(self, oldest: float) -> list[float | None]:
        """How many died in each part of the time from `oldest` seconds ago until now."""
        counts = [0.0] * _BARS
        for age in self.ages:
            counts[min(_BARS - 1, max(0, int((1 - age / oldest) * _BARS)))] += 1
        return [*counts]

    @property
    def fields(self) -> dict[str, str]:
        """What names the group in a form."""
        return {"queue": self.queue, "error": self.error, "task": self.task}


async def read(view: View) -> dict[str, Any]:
    """Group the newest dead jobs of all queues, or of the one that was asked for."""
    wanted, after = view.param("queue"), _cursors(view.param("after"))
    queues = [queue for queue in await read_queues(view.lw) if queue.total("dead")]
    meant = [each for each in queues if wanted in ("", each.name)]
    places = [
        (queue.name, partition.name)
        for queue in meant
        for partition in queue.partitions
        if partition.status.dead and (not after or partition.name in after)
    ]
    most = max(_LEAST, _READ // max(1, len(places)))
    found = await asyncio.gather(
        *(view.lw.queue(home).dead.asearch(limit=most, after=after.get(home, "")) for _, home in places)
    )
    deaths: dict[tuple[str, str, str], Death] = {}
    for (name, home), page in zip(places, found, strict=True):
        for job in page.jobs:
            task, message = job.call.task or "", view.text(job.call.task, "error", job.error.text)
            if _meant(view, job, message):
                made = Death(name, home, job.error.type, task, job, message)
                group = deaths.setdefault((name, job.error.type, task), made)
                group.ages.append(job.dead_for)
                if job.dead_for < group.example.dead_for:
                    group.example, group.partition, group.message = job, home, made.message
    some = sorted(deaths.values(), key=lambda group: (-group.count, group.error, group.task))[:_GROUPS]
    for group in some[:_TRACED]:  # a page of dead jobs comes without tracebacks
        group.traceback = _traceback(view, await view.lw.queue(group.partition).dead.aget(group.example.id))
    return {
        "deaths": some,
        "left_out": len(deaths) - len(some),
        "oldest": max((age for group in some for age in group.ages), default=0.0) or 1.0,
        "tabs": [("", "All", None), *((each.name, each.name, each.total("dead")) for each in queues)],
        "total": sum(each.total("dead") for each in meant),
        "searched": view.number("searched", 0, 10**12) + sum(len(page.jobs) for page in found),
        "whole": not after and not any(page.next for page in found),
        "next": _next({home: page.next for (_, home), page in zip(places, found, strict=True) if page.next}),
    }


def _meant(view: View, job: DeadJob, message: str) -> bool:
    task, text = view.param("task"), view.param("text")
    return task in ("", job.call.task) and text in f"{job.error.type}: {message}"


def _traceback(view: View, whole: DeadJob | None) -> str:
    if whole is None:
        return ""
    end = "\n".join((whole.error.traceback or "").rstrip().splitlines()[-_LINES:])
    shown = view.text(whole.call.task, "error", end)
    return "" if shown.rule else shown


def _next(places: dict[str, str]) -> str | None:
    """Return where to go on in each partition, as a text."""
    return urlsafe_b64encode(json.dumps(places).encode()).decode() if places else None


def _cursors(after: str) -> dict[str, str]:
    if not after:
        return {}
    try:
        found = json.loads(urlsafe_b64decode(after))
        return {str(name): str(each) for name, each in found.items()}
    except (ValueError, AttributeError):
        raise ConfigError(f"after is where another page ended, not {after[:80]!r}") from None


async def retry(view: View, form: Form) -> str:
    """Run the jobs of a group again."""
    queue, task, error = _named(form)
    many = 0
    for name in await _partitions(view, queue):
        many += await view.lw.queue(name).dead.aretry_all(**_matching(task, error))
    return f"{several(many, 'job runs', 'jobs run')} again: {error} in {task}."


async def delete(view: View, form: Form) -> str:
    """Delete the jobs of a group."""
    queue, task, error = _named(form)
    many = 0
    for name in await _partitions(view, queue):
        many += await view.lw.queue(name).dead.adelete_all(**_matching(task, error))
    return f"Deleted {several(many, 'dead job')}: {error} in {task}."


def _named(form: Form) -> tuple[str, str, str]:
    """Return the queue, the task and the error that name a group."""
    if not form.get("queue"):
        raise ConfigError("No group was named.")
    return form["queue"], form.get("task", ""), form.get("error", "")


async def _partitions(view: View, queue: str) -> list[str]:
    return [each.name for found in await read_queues(view.lw) if found.name == queue for each in found.partitions]


def _matching(task: str, error: str) -> Matching:
    wanted: Matching = {}
    if task:
        wanted["task"] = task
    if error:
        wanted["error"] = error
    return wanted


PAGE = Page("dead", "/dead", "Dead", read, {"retry": retry, "delete": delete}, key="d")
