"""Search of jobs in all places and in history: filters and result rows."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal, TypedDict

from msgspec import Struct

from lockwork.config import check_names
from lockwork.durations import Duration, seconds
from lockwork.errors import ConfigError
from lockwork.ids import suffix_pattern
from lockwork.jobs import options
from lockwork.jobs.arguments import Parameters, as_float, has_argument, is_in, named_value
from lockwork.jobs.snapshot import JobError, moment_us, tags_of
from lockwork.protocol import names
from lockwork.protocol.effects import Protocol
from lockwork.protocol.history import history
from lockwork.protocol.keys import base_queue, checked
from lockwork.protocol.queue import record_header, records
from lockwork.protocol.search.search import StoredPage
from lockwork.protocol.search.search_position import PLACES, Position, read_position
from lockwork.protocol.search.search_sources import StoredJob, Wanted
from lockwork.runtime.runtime import Runtime
from lockwork.validation import one_of, whole, yes_or_no

JobState = Literal["ready", "scheduled", "running", "blocked", "dead", "succeeded", "cancelled", "expired", "done"]
"""States to search by; `done`: dead, succeeded, cancelled or expired."""
_PLACES: dict[str, tuple[str, ...]] = {
    "ready": ("ready:0", "ready:1", "ready:2", "groups", "came", "suspects"),
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
"""A text that JSON and MessagePack store unchanged."""
MOST = 1000
_BUDGET = 1_000_000


class JobFilter(TypedDict, total=False):
    """Filters of jobs; an omitted option matches all jobs."""

    state: JobState | None
    """The state; "done": dead, succeeded, cancelled or expired."""
    task: str
    """The task's name."""
    tag: str
    """One of the job's tags."""
    key: str
    """The job's key, as `JobSnapshot.key` shows it, or as the app gave it."""
    group: str
    """The job's group, likewise."""
    arg: str
    """The value of any argument, such as "42", or of a named one, such as "n=42"."""
    error: str
    """A part of the error's type or text; case-sensitive."""
    text: str
    """A part of its id, call or error."""
    since: Duration | datetime
    """Maximum age: time since it ended, or else started, or else was enqueued; or the earliest moment of that."""
    until: Duration | datetime
    """Minimum age, or the latest moment, as above."""
    hide_arguments: bool
    """True: hide what tasks with `hide_arguments` hide, as the command line and the dashboard do. Default False.

    Then no `arg` matches these jobs, and `text` only their id, task, tags and error; rows omit arguments, key, group.
    """


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
    """None if its record is long: `lw.job(id).inspect()` reads the whole record."""
    kwargs: dict[str, Any] | None
    size: int
    """Bytes of its record."""
    priority: str | int
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
    """Error of a dead job, or of the last attempt of a job that will run again; without its traceback."""
    flow: str | None
    schedule: str | None
    stock: str | None
    hidden: bool = False
    """True if its task has `hide_arguments`."""
    encrypted: bool = False
    """True if its arguments are encrypted: a search does not decrypt them."""


class Visible(Struct, frozen=True):
    """Limits on the fields that a search shows and matches."""

    hidden: frozenset[str] = frozenset()
    """Tasks that hide their arguments, besides the tasks of jobs with `hidden`."""
    finds: Callable[[JobRow], bool] | None = None
    """Returns False for a job that matches only by values that are not shown."""
    shows: Callable[[JobRow], bool] | None = None
    """Returns True for a matching job to include."""
    hints: bool = True
    """False: the server may not look for the texts, so that its steps do not depend on values that are not shown."""


@dataclass(frozen=True, slots=True)
class JobPage:
    """One page of jobs, and how many records were searched.

    Iterate over a page for its jobs and the jobs of all later pages: `for job in lw.jobs(task="send")`, or
    `async for job in await lw.ajobs(task="send")`. A later page is read when its first job is needed.
    """

    jobs: list[JobRow]
    searched: int
    """The number of jobs read."""
    total: int
    """The number of jobs in that state; for ended jobs, of all outcomes together."""
    next: str | None
    """The value of `after` for the next page; None at the end."""
    sampled: int
    """The total number of successes that history omitted."""
    undecided: int = 0
    """Jobs read that may match, but are not in `jobs`: history has only the beginning of their records."""
    _following: FollowingPages | None = field(default=None, repr=False, compare=False)

    def __iter__(self) -> Iterator[JobRow]:
        page: JobPage = self
        while True:
            yield from page.jobs
            if page.next is None or self._following is None:
                return
            page = self._following.read(page.next)

    async def __aiter__(self) -> AsyncIterator[JobRow]:
        page: JobPage = self
        while True:
            for job in page.jobs:
                yield job
            if page.next is None or self._following is None:
                return
            page = await self._following.aread(page.next)


@dataclass(frozen=True, slots=True)
class FollowingPages:
    """The pages of a search after its first one."""

    runtime: Runtime
    page: Callable[[str], Protocol[JobPage]]
    """Reads the page after a position."""

    def read(self, after: str) -> JobPage:
        """Read the page after a position."""
        return self.runtime.run(self.page(after))

    async def aread(self, after: str) -> JobPage:
        """Async version of `read`."""
        return await self.runtime.arun(self.page(after))


def read_filter(
    fields: JobFilter,
    newest: object,
    parameters: Parameters,
    visible: Visible | None = None,
    *,
    from_now_on: bool = True,
) -> Wanted:
    """Check the filters of a search; raises ConfigError.

    visible: limits on the fields that the search shows, with `hide_arguments`.
    from_now_on: include jobs that are enqueued later.
    """
    check_names(fields, JobFilter, "jobs cannot be searched by")
    for name in ("tag", "arg", "error", "text"):
        if not isinstance(fields.get(name, ""), str):
            raise ConfigError(f"{name} is text, not {fields.get(name)!r}")
    if "task" in fields:
        checked(fields.get("task"), "a job's task")
    key, group = (_stored(fields.get(name), f"a job's {name}") if name in fields else None for name in ("key", "group"))
    state = fields.get("state")
    if state is not None:
        one_of(state, "state", tuple(_PLACES))
    task, tag = fields.get("task"), fields.get("tag")
    if not yes_or_no(fields.get("hide_arguments", False), "hide_arguments"):
        visible = None
    now = time.time()
    return Wanted(
        PLACES if state is None else frozenset(_PLACES[state]),
        _LETTERS.get(state or "", ""),
        key,
        group,
        _second(fields["since"], "since", now) if "since" in fields else None,
        _second(fields["until"], "until", now) if "until" in fields else None if from_now_on else now + 1,
        tuple(_texts(fields, key, group)) if visible is None or visible.hints else (),
        suffix_pattern(task, tag, key) if (task, tag, key) != (None, None, None) else "",
        _shown(_matcher(fields, key, group, parameters, visible), visible),
        newest=yes_or_no(newest, "newest"),
        whole=bool({"tag", "arg", "text"} & fields.keys()),
        guarded=visible is not None,
    )


def _second(when: Duration | datetime, what: str, now: float) -> float:
    """Return a moment, or an age, in seconds since 1970."""
    return -options.at(when, what) / 1000 if isinstance(when, datetime) else now - seconds(when, what, zero=True)


def _stored(name: object, what: str) -> str:
    return names.stored(names.typed(names.checked_name(name, what)))


def _texts(fields: JobFilter, key: str | None, group: str | None) -> list[str]:
    """Return texts that the id, the record or the error of each matching job contains."""
    texts = [] if key is None else [f",{key},"]
    texts += [f'"{text}"' for text in (fields.get("task", ""), fields.get("tag", "")) if _SAFE.fullmatch(text)]
    texts += [] if group is None else [group]
    value = named_value(fields.get("arg", ""))[1]
    number = as_float(value)
    # a float may be stored in another form, such as 1e-7 for 1e-07
    if _SAFE.fullmatch(value) and value.lower() not in ("true", "false", "none", "null") and number is None:
        texts.append(value)
    error, text = fields.get("error", ""), fields.get("text", "")
    if _SAFE.fullmatch(error):  # it may begin in an error's type and end in its text
        texts += [part for each in error.split(": ") if (part := each.strip(" :"))]
    # the text may also be in a name, which has escaped spaces, or which is shown as a hash
    if _SAFE.fullmatch(text) and not any(part in text for part in names.HASHED.split()):
        texts += [part for each in text.split(" ") if (part := each.strip(":"))]
    return texts


def _matcher(
    fields: JobFilter, key: str | None, group: str | None, parameters: Parameters, visible: Visible | None
) -> Callable[[StoredJob], bool | None]:
    task, tag = fields.get("task"), fields.get("tag")
    arg, error, text = fields.get("arg"), fields.get("error"), fields.get("text")
    if not any(name in fields for name in ("task", "tag", "key", "group", "arg", "error", "text")):
        return lambda _: True

    def verdicts(job: StoredJob) -> Iterator[bool | None]:
        """Yield each filter's decision about a job: None if the read part of its record does not decide it."""
        description = f"{job.error.type}: {job.error.text}" if job.error else ""
        unknown = None if len(job.record) < job.size else False
        yield error is None or error in description
        if (key, group) != (None, None):
            of = record_header.names(job.record)
            same = (key is None or of.key == key) and (group is None or of.group == group)
            yield same if job.record else unknown
        yield tag is None or (unknown is False and tag in tags_of(job.record)) or unknown
        if (task, arg, text) == (None, None, None):
            return
        call = records.read(job.record, job.size, job.id)
        yield task is None or (unknown if call.task is None else call.task == task)
        if text is not None and (text in job.id or text in description):
            text_found: bool | None = True
        elif visible is not None and _is_hidden(call, visible):
            text_found = text is None or text in (call.task or "") or any(text in each for each in tags_of(job.record))
            yield arg is None and text_found
            return
        else:
            text_found = text is None or is_in(text, job.record) or unknown
        yield text_found
        yield arg is None or has_argument(call, job.record, arg, parameters)

    def matches(job: StoredJob) -> bool | None:
        sure = True
        for verdict in verdicts(job):
            if verdict is False:
                return False
            sure = sure and verdict is not None
        return sure or None

    return matches


def _is_hidden(call: records.StoredCall, visible: Visible) -> bool:
    return call.hidden or call.task in visible.hidden


def _shown(matches: Callable[[StoredJob], bool | None], visible: Visible | None) -> Callable[[StoredJob], bool | None]:
    """Return the matcher without the jobs that match by values that are not shown."""
    finds, shows = (None, None) if visible is None else (visible.finds, visible.shows)
    if finds is None and shows is None:
        return matches

    def shown(job: StoredJob) -> bool | None:
        match = matches(job)
        if not match:
            return match
        visible_row = row(job, visible)
        if finds is not None and not finds(visible_row):
            return None if len(job.record) < job.size else False  # as if the kept part did not match
        return shows is None or shows(visible_row)

    return shown


def page(stored: StoredPage, visible: Visible | None = None) -> JobPage:
    """Return the jobs as users read them; `visible`: without hidden values."""
    jobs = [row(job, visible) for job in stored.jobs]
    return JobPage(jobs, stored.searched, stored.total, stored.next, stored.sampled, len(stored.undecided))


def row(job: StoredJob, visible: Visible | None = None) -> JobRow:
    """Return a job as users read it; `visible`: without hidden values."""
    call = records.read(job.record, job.size, job.id)
    named = record_header.names(job.record)
    hidden = call.hidden
    if visible is not None and _is_hidden(call, visible):
        call, named, hidden = replace(call, args=None, kwargs=None), record_header.Names(), True
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
        key=names.shown_or_none(named.key),
        group=names.shown_or_none(named.group),
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
        hidden=hidden,
        encrypted=call.encrypted,
    )


def read_cursor(after: object, newest: bool) -> Position | None:
    """Read the `next` of a page in the same order; raises ConfigError."""
    if after is None or after == "":
        return None
    try:
        position = read_position(after) if isinstance(after, str) else None
    except ValueError:
        position = None
    if position is None or position.newest != newest:
        raise ConfigError(f"after is the `next` of an earlier page in the same order, not {after!r:.80}")
    return position


def read_limits(limit: object, budget: object) -> tuple[int, int]:
    """Check how many jobs a page has, and how many records are read for it; raises ConfigError."""
    return whole(limit, "limit", 1, MOST), whole(budget, "budget", 1, _BUDGET)
