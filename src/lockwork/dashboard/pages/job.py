"""One job: its attempts, arguments, result, error, neighbors and flow; cancel it, run it again, or delete it."""

from __future__ import annotations

from typing import Any

from lockwork.dashboard.flow_picture import FlowPicture, picture
from lockwork.dashboard.neighbors import read_neighbors
from lockwork.dashboard.page import Form, NotFound, Page, ShownText, View
from lockwork.jobs.job import Job
from lockwork.jobs.snapshot import JobSnapshot

_WAITS = ("ready", "scheduled", "blocked")
_FLOW = 1000
"""Jobs of its flow that the page reads."""


async def read(view: View) -> dict[str, Any]:
    """Read all that is known of the job."""
    job = await _found(view).ainspect()
    if job.state == "unknown":
        raise NotFound(f"Nothing is known of job {job.id}: history no longer has it, or it never existed.")
    return {
        "job": job,
        "args": _values(view, job),
        "result": view.text(job.task, "result", job.result),
        "progress": None if job.progress is None else view.text(job.task, "progress", job.progress),
        "checkpoints": {name: view.text(job.task, "checkpoint", each) for name, each in job.checkpoints.items()},
        "message": view.text(job.task, "error", job.error.text if job.error else ""),
        "frames": _frames(view, job),
        "neighbors": await read_neighbors(view.lw, job),
        "drawn": await _flow(view, job),
        "may": {
            "cancel": job.state in (*_WAITS, "running"),
            "retry": job.state in ("dead", "cancelled", "expired"),
            "delete": job.state not in ("running", "unknown"),
            "now": job.state == "scheduled",
        },
    }


async def cancel(view: View, _: Form) -> str:
    """Cancel the job."""
    return _said(await _found(view).acancel(), "The job is cancelled.", "The job has already ended.")


async def retry(view: View, _: Form) -> str:
    """Run the job again."""
    done = await _found(view).aretry()
    return _said(done, "The job runs again.", "The job is neither dead, cancelled nor expired, or its record is gone.")


async def now(view: View, _: Form) -> str:
    """Let the job run now."""
    return _said(await _found(view).areschedule(delay=0), "The job is ready.", "The job is not scheduled.")


async def delete(view: View, _: Form) -> str:
    """Delete the job."""
    return _said(await _found(view).adelete(), "The job is deleted.", "The job is running, or no longer exists.")


def _found(view: View) -> Job[Any]:
    return view.lw.job(view.in_path("id"), view.param("queue") or None)


async def _flow(view: View, job: JobSnapshot) -> FlowPicture | None:
    """Draw the flow of the job, or what is around the job in a large one."""
    if not job.flow:
        return None
    number = int(job.id.rpartition(".")[2].rstrip("u"))
    run = view.lw.flow(id=job.flow, queue=job.queue)
    return picture(await run.agraph(_FLOW, first=max(1, number - _FLOW // 2)), run.job(number).id)


def _said(done: bool, yes: str, no: str) -> str:
    return yes if done else no


def _values(view: View, job: JobSnapshot) -> list[tuple[str, ShownText]]:
    """Return the arguments as JSON, by name or position, as far as they may be shown."""
    given: list[tuple[int | str, object]] = [*enumerate(job.args or ()), *(job.kwargs or {}).items()]
    return [view.argument(job.task, name, each) for name, each in given]


def _frames(view: View, job: JobSnapshot) -> list[tuple[bool, str]]:
    """Split the traceback into frames; True for those of the user's code, which are shown unfolded."""
    if job.error is None or not job.error.traceback:
        return []
    shown = view.text(job.task, "error", job.error.traceback)
    if shown.rule:
        return []
    frames: list[list[str]] = []
    for line in shown.rstrip().splitlines():
        if not frames or line.startswith('  File "') or not line.startswith(" "):
            frames.append([])
        frames[-1].append(line)
    return [
        (not any(part in frame[0] for part in ("/site-packages/", "/lib/python", "<frozen ")), "\n".join(frame))
        for frame in frames
    ]


PAGE = Page(
    "job",
    "/job/{id:path}",
    "Job",
    read,
    {"cancel": cancel, "retry": retry, "now": now, "delete": delete},
    rail=False,
    within="jobs",
)
