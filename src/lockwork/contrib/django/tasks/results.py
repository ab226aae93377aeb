"""Reads a TaskResult from a job on the server, and the kept facts about it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from django.conf import settings
from django.utils import timezone
from msgspec import structs

from lockwork.contrib.django.tasks import kept as facts_kept
from lockwork.contrib.django.tasks.framework import AnyResult, AnyTask, TaskError, TaskResult, TaskResultStatus
from lockwork.contrib.django.tasks.kept import Facts, Kept, KeptAttempt, import_path, path_of_name
from lockwork.errors import JobCancelled, JobExpired, WorkerDied
from lockwork.failures import Failure
from lockwork.ids import enqueued_at
from lockwork.jobs.opened import opened_details
from lockwork.jobs.snapshot import attempt_of
from lockwork.payloads.payloads import Payloads, opened
from lockwork.protocol.effects import Protocol
from lockwork.protocol.history.history import PastAttempt
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import job_control as control
from lockwork.protocol.queue import record_header, records
from lockwork.protocol.queue.job_control import JobDetails

_READY, _RUNNING = TaskResultStatus.READY, TaskResultStatus.RUNNING
_FAILED, _SUCCESSFUL = TaskResultStatus.FAILED, TaskResultStatus.SUCCESSFUL


@dataclass(frozen=True, slots=True)
class TaskJob:
    """A job of a task of Django, at one moment."""

    queue: str
    details: JobDetails
    kept: Kept
    status: TaskResultStatus
    value: Any = None
    result_ms: int = 0
    """Time that the result is kept; 0: as the task has it."""

    @property
    def is_finished(self) -> bool:
        """Return True if the job has ended."""
        return self.status in (_FAILED, _SUCCESSFUL)

    @property
    def ending(self) -> str:
        """The end of the job, as in `Kept`."""
        details = self.details
        if not self.is_finished:
            return ""
        if details.state == "dead" or self.status == _SUCCESSFUL:
            return "dead" if details.state == "dead" else "success"
        return {b"c": "cancel", b"x": "expire"}.get(details.blob[:1], self.kept.ending)


def find(queues: Sequence[QueueKeys], id: str, payloads: Payloads | None) -> Protocol[TaskJob | None]:
    """Find a job by its id; None if none of the queues knows a job of a task of Django with its result.

    Raises PayloadRejected if it is not encrypted or signed as the app requires.
    """
    unknown: list[QueueKeys] = []
    for queue in queues:
        details = _from_history((yield from _inspect(queue, id)))
        if details.state == "unknown":
            unknown.append(queue)
            continue
        # the worker writes the facts before the outcome, so all facts are there
        kept = yield from facts_kept.read(queue, id, payloads)
        if details.state == "ended" and len(details.blob) > 1 and details.blob[:1] == b"s":
            blob = b"s" + opened(payloads, "result", queue.name, id, details.blob[1:])
            return _found(queue, structs.replace(details, blob=blob), kept, id)
        return _found(queue, opened_details(payloads, queue.name, id, details) if payloads else details, kept, id)
    for queue in unknown:
        kept = yield from facts_kept.read(queue, id, payloads)
        if kept is not None and kept.ending in ("dead", "cancel", "expire"):
            nothing = JobDetails("ended", None, None, None, control.Note(), b"f", b"")
            return TaskJob(queue.name, nothing, kept, _FAILED)
    return None


def _inspect(queue: QueueKeys, id: str) -> Protocol[JobDetails]:
    """Read everything about a job, also where it runs."""
    while True:
        details = yield from control.inspect(queue, id)
        if details.state != "active":
            return details
        place = yield from control.find_place(queue, id)
        if place.state != "gone":  # else it has ended between the two calls
            return structs.replace(details, state=place.state, session=place.session, token=place.token)


def _from_history(details: JobDetails) -> JobDetails:
    """Take the job from history, if it ended without a result, and its record is short enough to be there."""
    row = details.row
    if details.state != "unknown" or row is None or row.letter not in ("c", "x") or len(row.record) != row.size:
        return details
    return structs.replace(details, state="ended", blob=row.letter.encode(), record=row.record, attempts=row.attempts)


def _found(queue: QueueKeys, details: JobDetails, kept: Kept | None, id: str) -> TaskJob | None:
    call = records.decoded(record_header.body(details.record)) if details.record else None
    facts = Facts.of_call(call)
    if facts is not None and call is not None:
        stored = Kept(call[0], facts, enqueued_at(id) or 0, call[1], call[2])
        kept = stored if kept is None else replace(kept, args=stored.args, kwargs=stored.kwargs)
    if kept is None:
        return None
    result_ms = record_header.tracked_ms(details.record)
    if details.state != "ended":
        status = {"dead": _FAILED, "running": _RUNNING}.get(details.state, _READY)
        return TaskJob(queue.name, details, kept, status, None, result_ms)
    if details.blob[:1] != b"s":
        return TaskJob(queue.name, details, kept, _FAILED, None, result_ms)
    if kept.ending != "success" or len(details.blob) == 1:
        return None  # its result has expired
    return TaskJob(queue.name, details, kept, _SUCCESSFUL, json.loads(details.blob[1:]))


def task_result(found: TaskJob, task: AnyTask, id: str) -> AnyResult:
    """Return what Django shows of a job."""
    attempts, errors = _attempts(found), _errors(found)
    made = of_attempts(task, id, found.kept, attempts, found.status, _ended(found))
    made.errors.extend(errors)
    object.__setattr__(made, "_return_value", found.value)
    return made


def final(found: TaskJob) -> Kept:
    """Return the facts to keep about a job that no worker saw end, with an error for each failed attempt."""
    attempts, errors = _attempts(found), _errors(found)
    failed = len(_failed(found, attempts))
    noted = [
        replace(attempt, error=error.exception_class_path, traceback=error.traceback)
        for attempt, error in zip(attempts[:failed], errors, strict=False)
    ]
    return replace(found.kept, attempts=[*noted, *attempts[failed:]], ending=found.ending, ended=_ended(found) or 0)


def error_of(found: TaskJob) -> Exception | None:
    """Return the error of a job that failed in another process; its traceback is in the result."""
    errors = _errors(found)
    if found.status != _FAILED or not errors:
        return None
    buried = Failure.read(found.details.blob) if found.details.state == "dead" else None
    path, _, line = errors[-1].traceback.rstrip().rpartition("\n")[2].partition(": ")
    text = buried.text if buried is not None else line or path
    try:
        error_class = errors[-1].exception_class
        error = error_class.__new__(error_class, text)
        error.args = (text,)
    except Exception:  # noqa: BLE001 - the class has changed, or is not here
        return Exception(f"{errors[-1].exception_class_path}: {text}")
    return error if isinstance(error, Exception) else Exception(text)


def _ended(found: TaskJob) -> int | None:
    """Return when the job ended, in µs since 1970."""
    if not found.is_finished:
        return None
    kept, attempts = found.kept, _attempts(found)
    if kept.ended and kept.ending == found.ending:
        return kept.ended
    return found.details.ended or kept.ended or (attempts[-1].ended if attempts else 0) or None


def of_attempts(
    task: AnyTask,
    id: str,
    kept: Kept,
    attempts: Sequence[KeptAttempt],
    status: TaskResultStatus,
    finished: int | None,
) -> AnyResult:
    """Return a result of these attempts, without errors and return value; `finished` in µs since 1970."""
    started = [attempt.started for attempt in attempts if attempt.started]
    return TaskResult(
        task=task,
        id=id,
        status=status,
        enqueued_at=moment(kept.enqueued * 1000),
        started_at=moment(started[0]) if started else None,
        last_attempted_at=moment(started[-1]) if started else None,
        finished_at=moment(finished),
        args=kept.args,
        kwargs=kept.kwargs,
        backend=kept.facts.backend,
        errors=[],
        worker_ids=[attempt.worker for attempt in attempts],
    )


def moment(microseconds: int | None) -> datetime | None:
    """Return a time in µs since 1970 as Django's `timezone.now()` does."""
    if not microseconds:
        return None
    found = datetime.fromtimestamp(microseconds // 1_000_000, UTC).replace(microsecond=microseconds % 1_000_000)
    return found if settings.USE_TZ else timezone.make_naive(found, timezone.get_default_timezone())


def _attempts(found: TaskJob) -> list[KeptAttempt]:
    """Return all attempts, the present one last; what no worker has written comes from the queue."""
    details = found.details
    known = {each.number: each for each in found.kept.attempts}
    number, started = attempt_of(details.token) if details.token else (0, None)
    last = number or details.attempts
    if last is None:
        last = max(known, default=0)
    if number and (number not in known or started is None or known[number].started != _us(started)):
        known[number] = KeptAttempt(number, details.session, 0 if started is None else _us(started))
    past = {each.number: each for each in _past(details)}
    return [known.get(each) or _of_past(past.get(each), each) for each in range(1, last + 1)]


def _us(when: datetime) -> int:
    return round(when.timestamp() * 1_000_000)


def _past(details: JobDetails) -> Sequence[PastAttempt]:
    return details.row.timeline if details.row else details.timeline


def _of_past(past: PastAttempt | None, number: int) -> KeptAttempt:
    return KeptAttempt(number, past.session, past.started, past.ended) if past else KeptAttempt(number, "", 0)


def _errors(found: TaskJob) -> list[TaskError]:
    """Return an error for each failed attempt, and for the end of a job that was cancelled or has expired."""
    details, attempts = found.details, _attempts(found)
    past = {each.number: each for each in _past(details)}
    buried = Failure.read(details.blob) if details.state == "dead" else None
    errors = [
        _error(attempt, past.get(attempt.number), buried if attempt is attempts[-1] else None)
        for attempt in _failed(found, attempts)
    ]
    if found.ending == "cancel":
        errors.append(cancelled())
    elif found.ending == "expire":
        errors.append(_named(import_path(JobExpired), "the job did not start in time"))
    elif buried is not None and not errors:
        errors.append(_error(KeptAttempt(0, "", 0), None, buried))
    return errors


def _failed(found: TaskJob, attempts: list[KeptAttempt]) -> list[KeptAttempt]:
    """Return the failed attempts; the last one may run, have succeeded, or have been cancelled."""
    is_unfailed = bool(found.details.token) or found.status == _SUCCESSFUL or _was_cancelled(found, attempts)
    return attempts[:-1] if is_unfailed else attempts


def _was_cancelled(found: TaskJob, attempts: list[KeptAttempt]) -> bool:
    """Return True if the job ended with its last attempt, and that did not fail."""
    if found.ending not in ("cancel", "expire") or not attempts or attempts[-1].error:
        return False
    if found.kept.ending == found.ending:
        return True
    # no worker wrote the end: the job waited for its retry, or its attempt ended while the worker wrote its beginning;
    # without history, nothing says that an attempt without an error has failed
    return attempts[-1].number not in {each.number for each in _past(found.details)}


def _error(attempt: KeptAttempt, past: PastAttempt | None, buried: Failure | None) -> TaskError:
    if attempt.error:
        return TaskError(exception_class_path=attempt.error, traceback=attempt.traceback)
    if buried is not None and buried.type:
        path = path_of_name(buried.type)
        return TaskError(exception_class_path=path, traceback=buried.traceback or f"{path}: {buried.text}\n")
    if past is not None:
        return _named(path_of_name(past.type), past.text)
    return _named(import_path(WorkerDied), "its worker died")


def cancelled() -> TaskError:
    """Return the error of a job that was cancelled."""
    return _named(import_path(JobCancelled), "the job was cancelled")


def _named(path: str, text: str) -> TaskError:
    return TaskError(exception_class_path=path, traceback=f"{path}: {text}\n")
