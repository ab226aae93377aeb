"""Jobs in all places and in history, searched: which are meant, and how users read them."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypedDict

from lockwork.config import check_names
from lockwork.durations import Duration, seconds
from lockwork.errors import ConfigError
from lockwork.ids import suffix_pattern
from lockwork.jobs import options
from lockwork.jobs.snapshot import JobError, moment_us, tags_of
from lockwork.protocol.keys import base_queue, checked
from lockwork.protocol.queues import history, record_header, records, search
from lockwork.protocol.queues.search import StoredJob, StoredPage, Wanted
from lockwork.validation import one_of, whole, yes_or_no

JobState = Literal["ready", "scheduled", "running", "blocked", "dead", "succeeded", "cancelled", "expired", "done"]
"""The states by which jobs are searched; `done`: dead, succeeded, cancelled or expired."""
_PLACES: dict[str, tuple[str, ...]] = {
    "ready": ("ready:0", "ready:1", "ready:2", "groups", "came"),
    "scheduled": ("due",),
    "running": ("running",),
    "blocked": ("blocked",),
    "dead": ("dead",),
    "succeeded": ("history",),
    "cancelled": ("history",),
    "expired": ("history",),
    "done": ("dead", "history"),
}
_LETTERS = {"succeeded": "s", "cancelled": "c", "expired": "x"}
_STATES = {place: state for state, places in _PLACES.items() for place in places if state not in ("done", *_LETTERS)}
_ENDED = {letter: state for state, letter in _LETTERS.items()} | {"f": "dead"}
_SAFE = re.compile(r"[\w .:@/+-]+", re.ASCII)
"""A text that JSON and MessagePack store as it is."""
_NAMED = re.compile(r"([^\W\d]\w*)=(.*)", re.DOTALL)
MOST = 1000
_BUDGET = 1_000_000
Parameters = Mapping[str, Sequence[str]]
"""The names of the parameters of tasks, as far as they are known."""


class JobFilter(TypedDict, total=False):
    """Filters of jobs; an omitted option matches all jobs."""

    state: JobState | None
    """The state; "done": dead, succeeded, cancelled or expired."""
    task: str
    """The task's name."""
    tag: str
    """One of the job's tags."""
    key: str
    group: str
    arg: str
    """The value of any argument, such as "42", or of a named one, such as "n=42"."""
    error: str
    """A part of the error's type or text; case-sensitive."""
    text: str
    """A part of its id, call or error."""
    since: Duration
    """Maximum age: time since it ended, or else started, or else was enqueued."""
    until: Duration
    """Minimum age, as above."""


@dataclass(frozen=True, slots=True)
class JobRow:
    """A job as a search has found it; an unknown value is None."""

    id: str
    queue: str
    """The name of its queue, without the partition."""
    partition: str
    """The name of its partition, as `lw.queues()` has it."""
    task: str | None
    state: JobState
    attempt: int
    """The number of the attempt that runs; else how many have ended."""
    args: tuple[Any, ...] | None
    """None if its record is long: `lw.job(id).inspect()` reads all of it."""
    kwargs: dict[str, Any] | None
    size: int
    """Bytes of its record."""
    priority: str
    key: str | None
    group: str | None
    tags: tuple[str, ...]
    enqueued: datetime | None
    due: datetime | None
    started: datetime | None
    ended: datetime | None
    worker: str | None
    """The session of the worker process that runs it, or ran it last."""
    error: JobError | None
    """Of a dead job, or of the last attempt of one that will run again; without its traceback."""
    flow: str | None
    schedule: str | None
    stock: str | None


@dataclass(frozen=True, slots=True)
class JobPage:
    """One page of jobs, and how many records were searched."""

    jobs: list[JobRow]
    searched: int
    """The number of jobs read."""
    total: int
    """The number of jobs in that state; for ended jobs, of all outcomes together."""
    next: str | None
    """The value of `after` for the next page; None at the end."""
    sampled: int
    """The total number of successes that history omitted."""


def read_filter(given: JobFilter, newest: object, parameters: Parameters, *, from_now_on: bool = True) -> Wanted:
    """Check what to search by; `from_now_on`: jobs that come later are meant, too. Raises ConfigError."""
    check_names(given, JobFilter, "jobs cannot be searched by")
    for name in ("tag", "arg", "error", "text"):
        if not isinstance(given.get(name, ""), str):
            raise ConfigError(f"{name} is text, not {given.get(name)!r}")
    for name in ("task", "key", "group"):
        if name in given:
            checked(given.get(name), f"a job's {name}")
    state = given.get("state")
    if state is not None:
        one_of(state, "state", tuple(_PLACES))
    task, tag, key = given.get("task"), given.get("tag"), given.get("key")
    now = time.time()
    return Wanted(
        search.PLACES if state is None else frozenset(_PLACES[state]),
        _LETTERS.get(state or "", ""),
        key,
        given.get("group"),
        now - seconds(given["since"], "since", zero=True) if "since" in given else None,
        now - seconds(given["until"], "until", zero=True) if "until" in given else None if from_now_on else now + 1,
        tuple(_texts(given)),
        suffix_pattern(task, tag, key) if (task, tag, key) != (None, None, None) else "",
        _matcher(given, parameters),
        yes_or_no(newest, "newest"),
    )


def _texts(given: JobFilter) -> list[str]:
    """What the id, the record or the error of a job that matches surely contains."""
    found = [f",{given['key']},"] if "key" in given else []
    found += [f'"{text}"' for text in (given.get("task", ""), given.get("tag", "")) if _SAFE.fullmatch(text)]
    found += [given["group"]] if "group" in given else []
    value = _value(given.get("arg", ""))[1]
    if _SAFE.fullmatch(value) and value.lower() not in ("true", "false", "none", "null"):
        found.append(value)
    for text in (given.get("error", ""), given.get("text", "")):
        if _SAFE.fullmatch(text):  # it may begin in an error's type and end in its text
            found += [part for each in text.split(": ") if (part := each.strip(" :"))]
    return found


def _value(arg: str) -> tuple[str | None, str]:
    """The name of the argument, None for any, and its value."""
    named = _NAMED.fullmatch(arg)
    return (named[1], named[2]) if named else (None, arg)


def _matcher(given: JobFilter, parameters: Parameters) -> Callable[[StoredJob], bool]:
    task, tag, key, group = given.get("task"), given.get("tag"), given.get("key"), given.get("group")
    arg, error, text = given.get("arg"), given.get("error"), given.get("text")
    if not any(name in given for name in ("task", "tag", "key", "group", "arg", "error", "text")):
        return lambda _: True

    def matches(job: StoredJob) -> bool:
        said = f"{job.error.type}: {job.error.text}" if job.error else ""
        if error is not None and error not in said:
            return False
        if text is not None and not (text in job.id or text in said or text in job.record.decode(errors="replace")):
            return False
        if (key, group) != (None, None):
            of = record_header.names(job.record)
            if (key is not None and of[0] != key) or (group is not None and of[1] != group):
                return False
        if tag is not None and tag not in tags_of(job.record) and len(job.record) >= job.size:
            return False
        if task is None and arg is None:
            return True
        call = records.read(job.record, job.size)
        return (task is None or call.task == task) and (arg is None or _has_argument(call, arg, parameters))

    return matches


def _has_argument(call: records.StoredCall, arg: str, parameters: Parameters) -> bool:
    name, text = _value(arg)
    if call.args is None or call.kwargs is None:
        return call.cut  # the server has found the text in the record
    if _equal_any((*call.args, *call.kwargs.values()), arg):
        return True
    if name is None:
        return False
    if name in call.kwargs:
        return _equal_any((call.kwargs[name],), text)
    names = parameters.get(call.task or "", ())
    place = names.index(name) if name in names else len(call.args)
    return place < len(call.args) and _equal_any((call.args[place],), text)


def argument_in(arguments: Sequence[tuple[str, Any]], arg: str) -> bool:
    """Return whether one of these arguments is searched for; each has its name, or its position."""
    name, text = _value(arg)
    named = [each for label, each in arguments if label == name]
    return _equal_any([each for _, each in arguments], arg) or _equal_any(named, text)


def _equal_any(values: Sequence[Any], text: str) -> bool:
    return any(text == value or text == str(value) or text == json.dumps(value) for value in values)


def page(found: StoredPage) -> JobPage:
    """Return the jobs as users read them."""
    return JobPage([row(job) for job in found.jobs], found.searched, found.total, found.next, found.sampled)


def row(job: StoredJob) -> JobRow:
    """Return a job as users read it."""
    call = records.read(job.record, job.size)
    key, group = record_header.names(job.record)
    state: Any = _ENDED[job.letter] if job.letter in _ENDED else _STATES[job.place]
    return JobRow(
        id=job.id,
        queue=base_queue(job.queue),
        partition=job.queue,
        task=call.task,
        state=state,
        attempt=job.attempts,
        args=None if call.args is None else tuple(call.args),
        kwargs=call.kwargs,
        size=job.size,
        priority=call.priority,
        key=key,
        group=group,
        tags=tags_of(job.record),
        enqueued=moment_us(job.enqueued),
        due=moment_us(job.due),
        started=moment_us(job.started),
        ended=moment_us(job.ended),
        worker=job.session or None,
        error=JobError(job.error.type, job.error.text) if job.error else None,
        flow=history.flow_of(job.id, job.record),
        schedule=history.schedule_of(job.id),
        stock=options.stock(job.record),
    )


def read_cursor(after: object) -> dict[tuple[str, str], list[str] | None]:
    """Read the `next` of a page; raises ConfigError."""
    if after is None or after == "":
        return {}
    try:
        if not isinstance(after, str):
            raise TypeError(after)
        return search.read_cursor(after)
    except (ValueError, TypeError):
        raise ConfigError(f"after is the `next` of an earlier page, not {after!r:.80}") from None


def read_limits(limit: object, budget: object) -> tuple[int, int]:
    """Check how many jobs a page has, and how many records are read for it; raises ConfigError."""
    return whole(limit, "limit", 1, MOST), whole(budget, "budget", 1, _BUDGET)
