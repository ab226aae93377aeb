"""Schedules: when they fire next, and what became of their last job; run one now, or pause it."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

from lockwork.dashboard.formats import short_id
from lockwork.dashboard.page import Form, NotFound, Page, View
from lockwork.dashboard.reading import known_queues
from lockwork.schedules.schedule import Schedule, ScheduleStatus

_SLOTS = 48
"""Slots of a schedule that the strip shows at most."""


async def read(view: View) -> dict[str, Any]:
    """Read the schedules of all queues."""
    names = await known_queues(view.lw)
    found = await asyncio.gather(*(view.lw.aschedules(name, count=_SLOTS) for name in names))
    now = datetime.now(UTC)
    rows = sorted((each for some in found for each in some), key=lambda each: (_next(each) or now, each.name))
    return {"rows": rows, "now": now, "places": {(row.queue, row.name): _places(row, now) for row in rows}}


async def run(view: View, form: Form) -> str:
    """Enqueue its job at once."""
    schedule = _schedule(view, form)
    job = await schedule.arun_now()
    if job is None:
        return f"Schedule {schedule.name} allows no overlap, and its last job has not ended: nothing was enqueued."
    return f"Schedule {schedule.name} enqueued job {short_id(job.id)} in queue {schedule.queue}."


async def pause(view: View, form: Form) -> str:
    """Let its slots pass."""
    schedule = _schedule(view, form)
    if not await schedule.apause():
        raise NotFound(f"No worker has declared schedule {schedule.name}.")
    return f"Schedule {schedule.name} is paused; its slots pass without a job."


async def resume(view: View, form: Form) -> str:
    """Go on with the next slot."""
    schedule = _schedule(view, form)
    if not await schedule.aresume():
        raise NotFound(f"No worker has declared schedule {schedule.name}.")
    return f"Schedule {schedule.name} goes on with its next slot."


def _schedule(view: View, form: Form) -> Schedule:
    return view.lw.schedule(form.get("name", ""), queue=form.get("queue", "default"))


def _next(row: ScheduleStatus) -> datetime | None:
    return row.next[0] if row.next and not row.paused else None


def _places(row: ScheduleStatus, now: datetime) -> list[float]:
    """Return where on a strip of the next 24 hours its slots are, from 0 to 100."""
    day = timedelta(hours=24)
    return [round(100 * ((slot - now) / day), 2) for slot in row.next if now <= slot <= now + day]


PAGE = Page("schedules", "/schedules", "Schedules", read, {"run": run, "pause": pause, "resume": resume}, key="s")
