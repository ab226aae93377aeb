"""One job: its attempts, arguments, result, error, neighbors and flow; cancel it, run it again, or delete it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

from msgspec import Struct

from lockwork.dashboard.flow_picture import FlowPicture, picture
from lockwork.dashboard.neighbors import read_neighbors
from lockwork.dashboard.page import Form, NotFound, Page, ShownText, View
from lockwork.errors import ConfigError
from lockwork.ids import node_of
from lockwork.jobs.job import Job, ashown_snapshot
from lockwork.jobs.snapshot import Attempt, JobSnapshot, process_deaths

_WAITS = ("ready", "scheduled", "blocked")
_LIBRARIES = ("/site-packages/", "/lib/python", "<frozen ")
"""Path parts of files that are not the user's."""
_FLOW = 1000
"""Maximum jobs of its flow that the page reads."""


async def read(view: View) -> dict[str, Any]:
    """Read all data about the job."""
    job = await ashown_snapshot(_found(view))
    if job.state == "unknown":
        raise NotFound(f"Nothing is known of job {job.id}: history no longer has it, or it never existed.")
    args = _values(view, job)
    if job.hidden or view.dashboard.known.hides(job.task):  # its names may derive from its arguments
        job = replace(job, key=None, group=None)
    progress = None if job.progress is None else view.text(job.task, "progress", job.progress)
    drawn, flow_queue = await _flow(view, job)
    return {
        "job": job,
        "args": args,
        "result": view.text(job.task, "result", job.result),
        "progress": progress,
        "checkpoints": {name: view.text(job.task, "checkpoint", each) for name, each in job.checkpoints.items()},
        "message": view.text(job.task, "error", job.error.text if job.error else ""),
        "done": _done(progress),
        "timeline": _timeline(job),
        "deaths": process_deaths(job.crashes, job.shared_crashes),
        "frames": _frames(view, job),
        "neighbors": await read_neighbors(view.lw, job),
        "drawn": drawn,
        "flow_queue": flow_queue,
        "may": {
            "cancel": job.state in (*_WAITS, "running"),
            "retry": job.state in ("dead", "cancelled", "expired"),
            "delete": job.state not in ("running", "unknown"),
            "now": job.state == "scheduled",
        },
    }


async def cancel(view: View, _: Form) -> str:
    """Cancel the job."""
    return _said(
        await _found(view).acancel(), "The job is cancelled.", "The job has already ended, or no longer exists."
    )


async def retry(view: View, _: Form) -> str:
    """Run the job again."""
    done = await _found(view).aretry()
    return _said(done, "The job runs again.", "The job is neither dead, cancelled nor expired, or its record is gone.")


async def now(view: View, _: Form) -> str:
    """Run the job now."""
    return _said(
        await _found(view).areschedule(delay=0), "The job is ready.", "The job is not scheduled, or no longer exists."
    )


async def delete(view: View, _: Form) -> str:
    """Delete the job."""
    return _said(await _found(view).adelete(), "The job is deleted.", "The job is running, or no longer exists.")


def _found(view: View) -> Job[Any]:
    return view.lw.job(view.in_path("id"), view.param("queue") or None)


async def _flow(view: View, job: JobSnapshot) -> tuple[FlowPicture | None, str]:
    """Draw the flow of the job, or the job's surroundings in a large one; return also the flow's queue."""
    node = node_of(job.id) if job.flow else None
    if node is None:
        return None, ""
    number = node.number
    run = view.lw.flow(id=node.flow, queue=job.queue)
    nodes = await run.agraph(_FLOW, first=max(1, number - _FLOW // 2))
    return picture(nodes, run.job(number).id), run.queue


def _said(done: bool, yes: str, no: str) -> str:
    if not done:
        raise ConfigError(no)
    return yes


def _values(view: View, job: JobSnapshot) -> list[tuple[str, ShownText]]:
    """Return the visible arguments as JSON, by name or position."""
    arguments: list[tuple[int | str, object]] = [*enumerate(job.args or ()), *(job.kwargs or {}).items()]
    return [view.argument(job.task, name, each, hidden=job.hidden) for name, each in arguments]


def _frames(view: View, job: JobSnapshot) -> list[tuple[bool, list[str]]]:
    """Split the traceback into runs of frames; True for the user's code, which is shown unfolded."""
    if job.error is None or not job.error.traceback:
        return []
    trace = view.text(job.task, "error", job.error.traceback)
    if trace.rule:
        return []
    frames: list[list[str]] = []
    for line in trace.rstrip().splitlines():
        if not frames or line.startswith('  File "') or not line.startswith(" "):
            frames.append([])
        frames[-1].append(line)
    return [
        (mine, ["\n".join(frame) for frame in some])
        for mine, some in groupby(frames, key=lambda frame: not any(part in frame[0] for part in _LIBRARIES))
    ]


def _done(progress: ShownText | None) -> tuple[float, float] | None:
    """Return the completed amount and the total of a progress value such as {"done": 3, "of": 10}, or 0.3."""
    value = progress.value if progress is not None else None
    if isinstance(value, dict):
        done, of = value.get("done"), value.get("of", value.get("total"))
    else:
        done, of = value, 1.0 if isinstance(value, float) else None
    if not isinstance(done, int | float) or not isinstance(of, int | float):
        return None
    return (done, of) if 0 <= done <= of and of else None


class Span(Struct, frozen=True):
    """An attempt on the timeline of its job: its wait and run times, and both as (x, width) from 0 to 100."""

    attempt: Attempt
    waited: float | None
    ran: float | None
    wait: tuple[float, float] | None
    run: tuple[float, float] | None


def _timeline(job: JobSnapshot) -> list[Span]:
    """Place the attempts between the enqueue and the last end, or now."""
    moments = [each for attempt in job.timeline for each in (attempt.started, attempt.ended) if each]
    if not moments:
        return [Span(attempt, None, None, None, None) for attempt in job.timeline]
    first = min([*moments, job.enqueued] if job.enqueued and len(job.timeline) == job.timeline[-1].number else moments)
    last = max([*moments, datetime.now(UTC)] if job.state == "running" else moments)
    scale = 100 / max((last - first).total_seconds(), 0.001)

    def place(begin: datetime, end: datetime, least: float) -> tuple[float, float]:
        x = (begin - first).total_seconds() * scale
        width = max(least, (end - begin).total_seconds() * scale)
        return round(min(x, 100 - width), 2), round(width, 2)

    spans: list[Span] = []
    free: datetime | None = first
    for attempt in job.timeline:
        start, end = attempt.started, attempt.ended
        spans.append(
            Span(
                attempt,
                (start - free).total_seconds() if start and free and free < start else None,
                (end - start).total_seconds() if start and end else None,
                place(free, start, 0) if start and free and free < start else None,
                place(start, end or last, 1) if start else None,
            )
        )
        free = end
    return spans


PAGE = Page(
    "job",
    "/job/{id:path}",
    "Job",
    read,
    {"cancel": cancel, "retry": retry, "now": now, "delete": delete},
    rail=False,
    within="jobs",
)
