"""Read job records of any version. Unreadable parts are reported and never raise an error."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from lockwork.ids import enqueued_at, is_own, node_id, node_of
from lockwork.protocol.queue import record_header
from lockwork.protocol.queue.envelope import ENCRYPTED, readable, shown_text
from lockwork.protocol.queue.priority import shown

_TASK = re.compile(rb'\s*\[\s*("(?:[^"\\]|\\.)*")')
_ENCRYPTED = re.compile(rb'[^;]*;\["(?:[^"\\]|\\.)*","~')
_LIST = re.compile(rb"\s*,\s*\[\s*")
_NEXT = re.compile(r"\s*([,\]])\s*")
_DECODER = json.JSONDecoder()
ENQUEUED = "enqueued"
"""Field, beside the options of a job with the caller's own id, of the time (µs since 1970) of its enqueue.

It also tells a repeated call from another call with the same id."""
_COUNTS = re.compile(rb"(\d+)/?(\d*)/?(\d*)")


@dataclass(frozen=True, slots=True)
class StoredCall:
    """A stored call of a task.

    `task`, `args` and `kwargs` are None if they cannot be read; `problem` then has the reason. If only the beginning of
    a long record was read (`cut`), `task` is known, and the arguments are None.
    """

    task: str | None
    args: list[Any] | None
    kwargs: dict[str, Any] | None
    priority: str | int
    deliveries: int
    """Delivery limit of the job; if it has none, its limit of failed attempts."""
    size: int
    """Size of the record in bytes."""
    cut: bool
    problem: str | None
    hidden: bool = False
    """True if its task has `hide_arguments`."""
    encrypted: bool = False
    """True if its arguments are encrypted, and None here."""


class _Noted(msgspec.Struct):
    enqueued: int | None = None


class ResultOf(str):
    """A reference to another job's result or error, among the arguments of a flow's job, which receives it."""

    __slots__ = ("job",)
    job: str
    """The id of that job."""

    @classmethod
    def of(cls, user: str, number: int) -> ResultOf:
        """Return a reference from the job `user` to job `number` of its flow; a negative number means its error."""
        node = node_of(user)
        job = node_id(node.flow if node else "", abs(int(number)))
        reference = cls(f"<{'error' if number < 0 else 'result'} of job {job}>")
        reference.job = job
        return reference

    def __repr__(self) -> str:
        return str.__str__(self)


def read(record: bytes, size: int, id: str) -> StoredCall:
    """Read the record of a job, or the beginning of a record of `size` bytes (-1: the record is missing)."""
    level = record[:1]
    priority = shown(int(level)) if level.isdigit() else "normal"
    task, args, kwargs, problem = _body(record, size, id)
    cut = len(record) < size
    budget = record_header.budget(record)
    deliveries = budget.deliveries or budget.attempts
    hidden = record_header.is_hidden(record)
    encrypted = is_encrypted(record)
    return StoredCall(task, args, kwargs, priority, deliveries, max(0, size), cut, problem, hidden, encrypted)


def is_encrypted(record: bytes) -> bool:
    """Return True if the arguments of a record are encrypted."""
    return _ENCRYPTED.match(record) is not None


_Body = tuple[str | None, list[Any] | None, dict[str, Any] | None, str | None]
_NO_CALL = "its record is no call of a task"


def _body(record: bytes, size: int, id: str) -> _Body:
    """Return the task, the arguments, and the problem with them."""
    problem = "its record is lost" if size < 0 else ""
    if not record and size > 0:
        problem = "its record is too large to be read"
    elif not problem and b";" not in record:
        problem = "its record has no header"
    if problem:
        return None, None, None, problem
    body = record_header.body(record)
    if len(record) < size:
        task = _beginning(body)
        return task, None, None, None if task else _NO_CALL
    return _called(body, id)


def beginning_args(record: bytes) -> list[Any]:
    """Return the first positional arguments of a truncated record; none if it has result references."""
    header, _, body = record.partition(b";")
    match = _TASK.match(body)
    opened = _LIST.match(body, match.end()) if match and not header.endswith(b">") else None
    if opened is None:
        return []
    text = body[opened.end() :].decode(errors="ignore")
    args: list[Any] = []
    at = 0
    try:
        while True:
            value, at = _DECODER.raw_decode(text, at)
            separator = _NEXT.match(text, at)
            if separator is None:  # the number may be truncated
                return args
            args.append(value)
            if separator[1] == "]":
                return args
            at = separator.end()
    except (ValueError, RecursionError):
        return args


def _called(body: bytes, id: str) -> _Body:
    match decoded(body):
        case [str(task), list(args)]:
            return task, args, {}, None
        case [str(task), list(args), dict(kwargs), _, list(paths), *_]:
            try:
                _refer(args, kwargs, paths, id)
            except (LookupError, TypeError, ValueError):
                return task, None, None, "its arguments cannot be read"
            return task, args, kwargs, None
        case [str(task), list(args), dict(kwargs), *_]:
            return task, args, kwargs, None
        case [str(task), args, *_]:
            encrypted = isinstance(args, str) and args.startswith("~")
            return task, None, None, None if encrypted else "its arguments cannot be read"
        case _:
            return None, None, None, _NO_CALL


def _refer(args: list[Any], kwargs: dict[str, Any], paths: list[Any], id: str) -> None:
    """Put result references into the arguments; raise an error for a path that does not exist."""
    for path, source in paths:
        place: Any = args if isinstance(path[0], int) else kwargs
        for step in path[:-1]:
            place = place[step]
        numbers = source if isinstance(source, list) else [source]
        references = [ResultOf.of(id, number) for number in numbers]
        place[path[-1]] = references if isinstance(source, list) else references[0]


class Counts(NamedTuple):
    """Number of attempts of a job. `crashes` of them ended with the death of a process that ran only this job, `shared`
    with the death of a process that also ran other jobs."""

    attempts: int = 0
    crashes: int = 0
    shared: int = 0


NONE = Counts()


def counts(stored: bytes) -> Counts:
    """Read the counts of a job's attempts, `attempts/crashes/shared`, or the beginning of a token."""
    match = _COUNTS.match(stored)
    return Counts(int(match[1]), int(match[2] or 0), int(match[3] or 0)) if match else Counts()


@dataclass(frozen=True, slots=True)
class Fault:
    """A stored error: the name of its type, its text, and its traceback if that was read."""

    type: str
    text: str
    traceback: str | None


def fault(stored: bytes) -> Fault:
    """Read a stored error. Other data is returned as the text of an error without a type."""
    fields = decoded(stored)
    if not isinstance(fields, dict):
        return Fault("", stored.decode(errors="replace"), None)
    message, trace = shown_text(_text(fields.get("message"))), fields.get("traceback")
    if message is ENCRYPTED:
        trace = None
    return Fault(_text(fields.get("type")), message, None if trace is None else _text(trace))


def decoded(stored: bytes) -> Any:
    """Decode JSON; return None for other data."""
    try:
        return msgspec.json.decode(stored)
    except (ValueError, RecursionError):
        return None


def value(stored: bytes) -> Any:
    """Decode a stored value to show it; `ENCRYPTED` if it is encrypted, and None if it is no JSON."""
    plain = readable(stored)
    return ENCRYPTED if plain is None else decoded(plain)


def name(id: bytes) -> str:
    """Return an id as text; `raw` restores the bytes of an id that is not UTF-8."""
    return id.decode(errors="surrogateescape")


def raw(id: str) -> bytes:
    """Return an id as stored on the server."""
    return id.encode(errors="surrogateescape")


def made(id: str, record: bytes = b"") -> float | None:
    """Return when a job was enqueued (seconds since 1970, by the producer's clock), or the slot of a schedule's job;
    None if unknown. The record of a job with the caller's own id has the time, unless only its beginning is known."""
    if is_own(id):
        noted = noted_us(record)
        return None if noted is None else noted / 1_000_000
    time = enqueued_at(id)
    return None if time is None else time / 1000


def noted_us(record: bytes) -> int | None:
    """Return when a job with the caller's own id was enqueued, in µs since 1970; None if it cannot be read."""
    try:
        parts = msgspec.json.decode(record[record.index(b";") + 1 :], type=list[msgspec.Raw])
        return msgspec.json.decode(parts[3], type=_Noted).enqueued
    except (ValueError, LookupError, RecursionError):
        return None


def _beginning(body: bytes) -> str | None:
    match = _TASK.match(body)
    task = decoded(match[1]) if match else None
    return task if isinstance(task, str) else None


def _text(value: object) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)
