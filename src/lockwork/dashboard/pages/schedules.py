"""Schedules: their next slots, and the results of their last jobs; run one now, or pause it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec import Struct

from lockwork.dashboard.page import Form, NotFound, Page, View
from lockwork.errors import ConfigError
from lockwork.jobs.job import ashown_snapshot
from lockwork.schedules.schedule import Schedule
from lockwork.words import short_id

_SLOTS = 100
"""Number of slots of a schedule to read for the strip."""
_CLOSE = 1.2
"""Distance of slots below which the strip shows a band."""
_JOBS = 200
"""Number of schedules whose last job the page reads."""
_ROWS = 200
"""Number of schedules of a queue on the page."""
_DAY = timedelta(hours=24)


class Strip(Struct, frozen=True):
    """Slots of the next 24 hours as positions from 0, now, to 100."""

    ticks: list[float]
    """Separate slots."""
    bands: list[tuple[float, float]]
    """Ranges of slots that are too close to separate: from, to."""
    many: str
    """Number of slots, as text."""


async def read(view: View) -> dict[str, Any]:
    """Read the schedules of all queues, and the results of their last jobs."""
    names = await view.queue_names()
    schedule_lists = await asyncio.gather(*(view.lw.aschedules(name, count=_SLOTS, limit=_ROWS) for name in names))
    now = datetime.now(UTC)
    # by name, not by the next slot, so that rows keep their places
    rows = sorted((each for some in schedule_lists for each in some), key=lambda each: (each.name, each.queue))
    jobs = await asyncio.gather(
        *(ashown_snapshot(view.lw.job(row.last_job, row.queue)) for row in rows[:_JOBS] if row.last_job)
    )
    return {
        "cut": any(len(some) == _ROWS for some in schedule_lists),
        "most": _ROWS,
        "rows": rows,
        "strips": {(row.queue, row.name): strip(row.next, now) for row in rows},
        "jobs": {job.id: job for job in jobs if job.state != "unknown"},
    }


async def run(view: View, form: Form) -> str:
    """Enqueue its job at once."""
    schedule = _schedule(view, form)
    job = await schedule.arun_now()
    if job is None:
        raise ConfigError(
            f"Schedule {schedule.name} allows no overlap, and its last job has not ended: nothing was enqueued."
        )
    return f"Schedule {schedule.name} enqueued job {short_id(job.id)} in queue {schedule.queue}."


async def pause(view: View, form: Form) -> str:
    """Pause the schedule."""
    schedule = _schedule(view, form)
    if not await schedule.apause():
        raise NotFound(f"No worker has declared schedule {schedule.name}.")
    return f"Schedule {schedule.name} is paused; its slots are skipped."


async def delete(view: View, form: Form) -> str:
    """Delete a schedule that was created at run time."""
    schedule = _schedule(view, form)
    if not await schedule.adelete():
        raise NotFound(f"Schedule {schedule.name} does not exist.")
    return f"Schedule {schedule.name} of queue {schedule.queue} is deleted."


async def resume(view: View, form: Form) -> str:
    """Resume the schedule with its next slot."""
    schedule = _schedule(view, form)
    if not await schedule.aresume():
        raise NotFound(f"No worker has declared schedule {schedule.name}.")
    return f"Schedule {schedule.name} continues with its next slot."


def _schedule(view: View, form: Form) -> Schedule:
    return view.lw.schedule(form.get("name", ""), queue=form.get("queue", "default"))


def strip(slots: Sequence[datetime], now: datetime) -> Strip:
    """Place slots; more may follow if there are as many as the limit."""
    places = [round(100 * ((slot - now) / _DAY), 2) for slot in slots if now <= slot <= now + _DAY]
    more = len(places) == _SLOTS
    runs: list[list[float]] = []
    for place in places:
        if runs and place - runs[-1][-1] < _CLOSE:
            runs[-1].append(place)
        else:
            runs.append([place])
    bands = [(run[0], 100.0 if more and run is runs[-1] else run[-1]) for run in runs if len(run) > 1]
    ticks = [run[0] for run in runs if len(run) == 1]
    return Strip(ticks, bands, f"{len(places):,} or more" if more else f"{len(places):,}")


PAGE = Page(
    "schedules",
    "/schedules",
    "Schedules",
    read,
    {"run": run, "pause": pause, "resume": resume, "delete": delete},
    key="s",
)
