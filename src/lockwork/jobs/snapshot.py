"""What the server said of a job at one moment, as users read it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from lockwork.protocol.queues import record_header, records
from lockwork.protocol.queues.job_control import JobSight, Whereabouts
from lockwork.protocol.queues.leases import JobState
from lockwork.validation import several

State = Literal["scheduled", "blocked", "ready", "running", "succeeded", "dead", "cancelled", "expired", "unknown"]
ENDINGS: dict[bytes, State] = {b"s": "succeeded", b"f": "dead", b"c": "cancelled", b"x": "expired"}
"""The states by the first byte of an outcome."""


@dataclass(frozen=True, slots=True)
class JobError:
    """Why an attempt failed, as text: the name of the exception's type, its text, and the end of its traceback."""

    type: str
    text: str
    traceback: str = ""


@dataclass(frozen=True, slots=True)
class JobSnapshot:
    """A job at one moment; an unknown value is None."""

    id: str
    queue: str
    task: str | None
    state: State
    attempts: int | None
    """Attempts that have ended."""
    progress: Any
    checkpoints: dict[str, Any]
    error: JobError | None
    due: datetime | None
    expires: datetime | None
    tags: tuple[str, ...]


def snapshot(id: str, queue: str, sight: JobSight) -> JobSnapshot:
    """Read what the server said of a job."""
    state: Any = ENDINGS.get(sight.blob[:1], "unknown") if sight.state == "ended" else sight.state
    task, tags = _named(sight.record)
    error = sight.blob if sight.state == "dead" else sight.blob[1:] if state == "dead" else b""
    return JobSnapshot(
        id=id,
        queue=queue,
        task=task,
        state=state,
        attempts=sight.attempts,
        progress=records.decoded(sight.note.progress.encode()),
        checkpoints={name: records.decoded(value.encode()) for name, value in sight.note.steps.items()},
        error=_error(error) if state == "dead" else None,
        due=_moment(sight.due),
        expires=_moment(sight.expires),
        tags=tags,
    )


def state_of(found: JobState) -> State:
    """Return the state of a job that is not active."""
    if found.state == "overdue":
        return "expired"
    if found.state == "ended":
        return ENDINGS.get(found.blob[:1], "unknown")
    return found.state  # type: ignore[return-value]  # the script has the same words for the others


def whereabouts(place: Whereabouts | None) -> str:
    """Say where a job is that has not ended, and whether a worker serves its queue."""
    if place is None or place.state == "gone":
        return ""
    said = f": it is {place.state}"
    if place.state != "running" and place.paused:
        return f"{said}, and the queue is paused"
    served = (
        several(place.workers, "worker process serves", "worker processes serve")
        if place.workers
        else "no worker serves"
    )
    return f"{said}, and {served} the queue"


def _error(stored: bytes) -> JobError:
    fault = records.fault(stored)
    return JobError(fault.type, fault.text, fault.traceback or "")


def _named(record: bytes) -> tuple[str | None, tuple[str, ...]]:
    try:
        call = records.decoded(record_header.body(record))
        tags = call[3].get("tags", ()) if len(call) > 3 else ()
        return str(call[0]), tuple(map(str, tags))
    except (ValueError, TypeError, LookupError, AttributeError):
        return None, ()


def _moment(milliseconds: int | None) -> datetime | None:
    return None if milliseconds is None else datetime.fromtimestamp(milliseconds / 1000, UTC)
