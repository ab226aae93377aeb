"""Snapshots of jobs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from lockwork import words
from lockwork.jobs import options
from lockwork.protocol.history import history
from lockwork.protocol.history.history import PastAttempt
from lockwork.protocol.names import shown_or_none
from lockwork.protocol.queue import record_header, records
from lockwork.protocol.queue.envelope import shown_text
from lockwork.protocol.queue.job_control import JobDetails, JobPlace
from lockwork.protocol.queue.leases import JobState

State = Literal[
    "scheduled", "blocked", "ready", "running", "succeeded", "dead", "cancelled", "expired", "skipped", "unknown"
]
ENDINGS: dict[bytes, State] = {
    b"s": "succeeded",
    b"f": "dead",
    b"c": "cancelled",
    b"x": "expired",
    b"n": "skipped",
}
"""The states by the first byte of an outcome."""
_OUTCOMES: dict[str, Literal["failed", "died"]] = {"f": "failed", "k": "died"}
_SHOWN = 200
"""Maximum characters of an error in another error."""


@dataclass(frozen=True, slots=True)
class JobError:
    """Why an attempt failed, as text: the name of the exception's type, its text, and the end of its traceback."""

    type: str
    text: str
    traceback: str = ""


@dataclass(frozen=True, slots=True)
class JobFailure:
    """The error of a dead job of a flow, as an argument of a job that runs after the failure.

    An argument without an annotation is a dict with these keys.
    """

    id: str
    """The id of the job that failed."""
    queue: str
    type: str
    """The name of the exception's type."""
    text: str
    traceback: str = ""
    """Its end, as text."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt of a job; `died`: the process that ran it."""

    number: int
    started: datetime | None
    ended: datetime | None
    """None while it runs."""
    worker: str
    """The session of the worker process, `host/pid/...`."""
    outcome: Literal["failed", "died", "running", "succeeded", "cancelled"]
    error: JobError | None = None
    overran: bool = False
    """True if it succeeded, but ignored its `timeout`."""


@dataclass(frozen=True, slots=True)
class JobSnapshot:
    """A job at one moment; an unknown value is None. History may have omitted all but the result of a success."""

    id: str
    queue: str
    task: str | None
    state: State
    attempts: int | None
    """Attempts that have ended."""
    progress: Any
    checkpoints: dict[str, Any]
    error: JobError | None
    """Error of a dead job, or of the last attempt, without its traceback, while the job waits or runs again."""
    due: datetime | None
    expires: datetime | None
    """End of the time in which it must start."""
    tags: tuple[str, ...]
    attempt: int | None = None
    """The number of the attempt that runs, or that was the last."""
    enqueued: datetime | None = None
    started: datetime | None = None
    """Start of the running attempt, or of the attempt that ended the job."""
    ended: datetime | None = None
    worker: str | None = None
    """The session of the worker process that runs it, or ran it last."""
    timeline: tuple[Attempt, ...] = ()
    """The last ten attempts that did not succeed, and the attempt that runs or ended the job."""
    args: tuple[Any, ...] | None = None
    kwargs: dict[str, Any] | None = None
    result: Any = None
    """Return value, while it is stored."""
    size: int | None = None
    """Bytes of its record."""
    priority: str | int = "normal"
    """"high", "normal" or "low", which are 0, 5 and 9 in a queue with ten priorities, or another of its numbers."""
    key: str | None = None
    group: str | None = None
    flow: str | None = None
    """The id of its flow."""
    schedule: str | None = None
    """The name of the schedule that enqueued it."""
    stock: str | None = None
    """The name of the stock that enqueued it."""
    crashes: int = 0
    """Attempts that ended with the death of a process that ran nothing else; three of them make a job dead."""
    shared_crashes: int = 0
    """Attempts that ended with the death of a process that ran other jobs, too."""
    suspect: bool = False
    """True if it waits to run alone, in an isolation process, because of such an attempt."""
    overran: bool = False
    """True if the job succeeded, but ignored its `timeout`; False if history has omitted the job."""
    retry_until: datetime | None = None
    """Time after which no attempt begins."""
    hidden: bool = False
    """True if its task has `hide_arguments`: tools show neither its arguments, nor its key and group."""
    encrypted: bool = False
    """True if its arguments are encrypted. Without their key, they are None, and other values "(encrypted)"."""


def process_deaths(crashes: int, shared_crashes: int) -> str:
    """Say how often a job's process died while it ran, alone or beside other jobs; empty for never."""
    alone = f"its process died {_times(crashes)} while it ran alone" if crashes else ""
    beside = f"{_times(shared_crashes)} while it ran beside other jobs" if shared_crashes else ""
    if alone and beside:
        return f"{alone}, and {beside}"
    return alone or (f"its process died {beside}" if beside else "")


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def snapshot(id: str, queue: str, details: JobDetails, stored: JobDetails | None = None) -> JobSnapshot:
    """Convert the server's data about a job to a snapshot; stored: the data before it was decrypted."""
    row, blob, record = details.row, details.blob, details.record
    state: Any = details.state
    if state == "ended" or (state == "unknown" and row is not None):
        state = ENDINGS.get(blob[:1] or (row.letter.encode() if row else b""), "unknown")
    size = len(record)
    if row is not None and not record:
        record, size = row.record, row.size
    as_stored = record if stored is None else stored.record or (stored.row.record if stored.row else b"")
    call = records.read(record, size, id) if record else None
    named = record_header.names(record)
    error = records.fault(blob if details.state == "dead" else blob[1:]) if state == "dead" else None
    if error:
        last_error: JobError | None = JobError(error.type, error.text, error.traceback or "")
    else:
        last_error = _last_error(state, details.timeline)
    timeline = _timeline(state, details)
    attempts = row.attempts if row is not None and details.attempts is None else details.attempts
    past = timeline[-1] if timeline else None
    return JobSnapshot(
        id=id,
        queue=queue,
        task=None if call is None else call.task,
        state=state,
        attempts=attempts,
        progress=records.value(details.note.progress.encode()),
        checkpoints={name: records.value(value.encode()) for name, value in details.note.steps.items()},
        error=last_error,
        due=_moment(details.due),
        expires=_moment(details.expires),
        tags=tags_of(record),
        attempt=past.number if past else attempts,
        enqueued=moment(records.made(id, record)),
        started=past.started if past else None,
        ended=moment_us(details.ended),
        worker=past.worker if past else None,
        timeline=timeline,
        args=None if call is None or call.args is None else tuple(call.args),
        kwargs=None if call is None else call.kwargs,
        result=records.value(blob[1:]) if state == "succeeded" and blob[:1] == b"s" else None,
        size=(size if stored is None else max(size, len(as_stored))) if call else None,
        priority=call.priority if call else "normal",
        key=shown_or_none(named.key),
        group=shown_or_none(named.group),
        flow=history.flow_of(id, record),
        schedule=history.schedule_of(id),
        stock=options.stock(record),
        crashes=details.counts.crashes,
        shared_crashes=details.counts.shared,
        suspect=details.suspect,
        overran=row is not None and row.overran and state == "succeeded",
        retry_until=_moment(record_header.retry_until(record, id)),
        hidden=record_header.is_hidden(record),
        encrypted=records.is_encrypted(as_stored),
    )


def _timeline(state: State, details: JobDetails) -> tuple[Attempt, ...]:
    row = details.row
    attempts = [past_attempt(each) for each in (row.timeline if row else details.timeline)]
    if row is not None and row.started and state in ("succeeded", "cancelled"):
        ended = moment_us(row.ended)
        attempts.append(Attempt(row.attempts, moment_us(row.started), ended, row.session, state, overran=row.overran))
    elif details.token:
        number, started = attempt_of(details.token)
        attempts.append(Attempt(number, started, None, details.session, "running"))
    return tuple(attempts)


def past_attempt(stored: PastAttempt) -> Attempt:
    """An attempt that did not succeed, as users read it."""
    error = JobError(stored.type, shown_text(stored.text))
    started, ended = moment_us(stored.started), moment_us(stored.ended)
    return Attempt(stored.number, started, ended, stored.session, _OUTCOMES.get(stored.letter, "failed"), error)


def attempt_of(token: bytes) -> tuple[int, datetime | None]:
    """The number and the start of the delivery with this token."""
    words = token.split(b" ")
    started = int(words[1]) if len(words) > 1 and words[1].isdigit() else None
    return records.counts(token).attempts, moment_us(started)


def _last_error(state: State, timeline: Sequence[PastAttempt]) -> JobError | None:
    if state not in ("scheduled", "ready", "running", "active", "blocked") or not timeline:
        return None
    return JobError(timeline[-1].type, shown_text(timeline[-1].text))


def tags_of(record: bytes) -> tuple[str, ...]:
    """Return the tags of a job, from its whole record."""
    try:
        call = records.decoded(record_header.body(record))
        return tuple(map(str, call[3].get("tags", ()))) if len(call) > 3 else ()
    except (ValueError, TypeError, LookupError, AttributeError):
        return ()


def state_of(stored: JobState) -> State:
    """Return the state of a job that is not active."""
    if stored.state == "overdue":
        return "expired"
    if stored.state == "ended":
        return ENDINGS.get(stored.blob[:1], "unknown")
    return stored.state  # type: ignore[return-value]  # the script has the same words for the others


def describe_wait(place: JobPlace, details: JobDetails, on_embedded: str = "") -> str:
    """Describe the last attempt of a job that has not ended, and what must happen before the next.

    on_embedded: names the embedded server, see `waits.on_embedded`.
    """
    if place.state == "gone":
        return ""
    if place.state == "running":
        number, started = attempt_of(place.token)
        seconds = max(0.0, details.at / 1000 - started.timestamp()) if started else 0.0
        attempt = _numbered(number, details)
        return f": {attempt} has been running for {words.duration(seconds)} on worker {place.session}"
    due = (details.due - details.at) / 1000 if details.due is not None else 0.0
    text = f": it is {place.state}"
    if details.timeline:
        text = f": {_failure(details)}; next attempt {f'in {words.duration(due)}' if due > 0 else 'is ready'}"
    elif place.state == "scheduled" and due > 0:
        text += f", to start in {words.duration(due)}"
    elif place.state == "blocked":
        text += " by other jobs of its flow"
    if place.paused:
        return f"{text}, and the queue is paused"
    served = (
        words.several(place.workers, "worker process serves", "worker processes serve")
        if place.workers
        else "no worker serves"
    )
    return f"{text}, and {served} the queue{'' if place.workers else on_embedded}"


def _failure(details: JobDetails) -> str:
    """Describe the last attempt that did not succeed."""
    last = details.timeline[-1]
    attempt = _numbered(last.number, details)
    if _OUTCOMES.get(last.letter) == "died":
        return f"{attempt} ended with the death of its process"
    text = shown_text(last.text)
    error = " ".join(f"{last.type}: {text}".split()) if text else last.type
    return f"{attempt} failed: {error if len(error) <= _SHOWN else error[: _SHOWN - 3] + '...'}"


def _numbered(number: int, details: JobDetails) -> str:
    budget = record_header.budget(details.record)
    most = min(budget.attempts, budget.deliveries or budget.attempts)
    return f"attempt {number} of {most}" if most >= number > 0 else f"attempt {max(1, number)}"


def moment(seconds: float | None) -> datetime | None:
    """A time in seconds since 1970 as a datetime."""
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


def moment_us(microseconds: int | None) -> datetime | None:
    """A time in µs since 1970 as a datetime; None for 0."""
    return datetime.fromtimestamp(microseconds / 1_000_000, UTC) if microseconds else None


def _moment(milliseconds: int | None) -> datetime | None:
    return None if milliseconds is None else datetime.fromtimestamp(milliseconds / 1000, UTC)
