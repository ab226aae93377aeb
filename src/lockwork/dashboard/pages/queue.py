"""One queue: its partitions, limits and next jobs; pause, limit, drain or clear it."""

from __future__ import annotations

from typing import Any

from lockwork.dashboard.charts import PARTS, stacked
from lockwork.dashboard.formats import number, visible
from lockwork.dashboard.marks import marks
from lockwork.dashboard.page import Form, NotFound, Page, View
from lockwork.dashboard.pages.tasks import most_time
from lockwork.errors import ConfigError
from lockwork.inspection.queue_state import QueueOverview
from lockwork.protocol.queue.browse import WaitingJob
from lockwork.queues.limits import LimitSettings
from lockwork.tasks.limits import breaker_text, rate_text
from lockwork.words import several

_NEXT = 10


async def read(view: View) -> dict[str, Any]:
    """Read the queue, its metrics, and its next jobs."""
    queue = await _found(view)
    metrics = await view.metrics(queue.name)
    jobs: list[WaitingJob] = []
    if len(queue.partitions) == 1:
        jobs = await view.lw.queue(queue.partitions[0].name).apeek(_NEXT)
    return {
        "queue": queue,
        "jobs": jobs,
        "chart": stacked(metrics.whole.points, metrics.part, PARTS, marks([queue], [])),
        "tasks": most_time(metrics.tasks),
        "limited": [
            state for partition in queue.partitions for state in await view.lw.queue(partition.name).atask_limits()
        ],
        "rate_text": rate_text,
        "breaker_text": breaker_text,
    }


async def pause(view: View, _: Form) -> str:
    """Pause the queue."""
    queue = await _found(view)
    for partition in queue.partitions:
        await view.lw.queue(partition.name).apause()
    return f"Queue {queue.name} is paused; running jobs continue."


async def resume(view: View, _: Form) -> str:
    """Let workers start its jobs again."""
    queue = await _found(view)
    for partition in queue.partitions:
        await view.lw.queue(partition.name).aresume()
    return f"Queue {queue.name} is no longer paused."


async def resume_task(view: View, form: Form) -> str:
    """End the pause of a task."""
    queue, task = await _found(view), form.get("task", "")
    resumed = [await view.lw.queue(partition.name).aresume_task(task) for partition in queue.partitions]
    if not any(resumed):
        raise ConfigError(f"Task {visible(task)} is not paused in queue {queue.name}.")
    return f"Task {task} of queue {queue.name} is no longer paused."


async def clear(view: View, form: Form) -> str:
    """Delete all waiting jobs."""
    queue = await _found(view)
    if form.get("typed", "").strip() not in (queue.name, visible(queue.name)):
        raise ConfigError(f"Type {queue.name} to clear it: nothing was deleted.")
    cleared = 0
    for partition in queue.partitions:
        cleared += await view.lw.queue(partition.name).aclear()
    return f"Deleted {several(cleared, 'waiting job')} of queue {queue.name}."


async def drain(view: View, _: Form) -> str:
    """Refuse new jobs, so that the workers empty the queue."""
    queue = await _found(view)
    for partition in queue.partitions:
        await view.lw.queue(partition.name).alimit(size=0)
    running = queue.total("running")
    remaining = queue.waiting + running
    return f"Queue {queue.name} takes no new jobs; {several(remaining, 'job is', 'jobs are')} left in it."


async def reopen(view: View, _: Form) -> str:
    """Accept new jobs again."""
    queue = await _found(view)
    for partition in queue.partitions:
        await view.lw.queue(partition.name).alimit(size=None)
    return f"Queue {queue.name} takes new jobs again."


async def limit(view: View, form: Form) -> str:
    """Set its rate, concurrency and size; an empty field removes the limit."""
    queue = await _found(view)
    if len(queue.partitions) > 1:
        raise ConfigError(f"Limit each partition of queue {queue.name}: no server counts for all of them.")
    settings = LimitSettings(
        rate=form.get("rate", "").strip() or None,
        concurrency=_whole(form, "concurrency"),
        size=_whole(form, "size"),
    )
    limits = await view.lw.queue(queue.partitions[0].name).alimit(**settings)
    texts = [
        f"{limits.rate} started" if limits.rate else "",
        f"{number(limits.concurrency)} at once" if limits.concurrency else "",
        f"{number(limits.size)} waiting" if limits.size is not None else "",
    ]
    return f"Limits of queue {queue.name}: {', '.join(filter(None, texts)) or 'none'}."


async def _found(view: View) -> QueueOverview:
    name = view.in_path("queue")
    queue = await view.queue(name)
    if queue is None:
        raise NotFound(f"No queue is named {name}, or it never had a job.")
    return queue


def _whole(form: Form, name: str) -> int | None:
    text = form.get(name, "").strip()
    if not text:
        return None
    if not text.isdecimal() or len(text) > 15:
        raise ConfigError(f"{name} is a number of jobs, or empty for no limit, not {text[:80]!r}")
    return int(text)


PAGE = Page(
    "queue",
    "/queues/{queue:path}",
    "Queue",
    read,
    {
        "pause": pause,
        "resume": resume,
        "resume_task": resume_task,
        "clear": clear,
        "drain": drain,
        "reopen": reopen,
        "limit": limit,
    },
    rail=False,
    within="queues",
    ranged=True,
    charts=True,
)
