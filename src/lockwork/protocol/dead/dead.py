"""The dead set: jobs that failed permanently. Read them page by page, count and group, retry and delete them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from msgspec import Struct
from msgspec.structs import replace

from lockwork.protocol.effects import Argument, Protocol, script_call
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import records
from lockwork.protocol.queue.records import Fault

_MOVES = 500
_TRIM = 500


def retry_one(queue: QueueKeys, id: str, request: str, *, anew: bool) -> Protocol[bool]:
    """Retry one dead job; return False when it is not dead."""
    args: list[Argument] = [1, int(anew), records.raw(id), ""]
    _, moved = yield script_call("dead/retry", queue, args, log=queue.step(request))
    return bool(moved)


def retry(queue: QueueKeys, wanted: Filter, request: str, most: int | None, *, anew: bool) -> Protocol[int]:
    """Retry all matching jobs, or the oldest `most` of them; return their number.

    Excludes jobs that die during the call.
    """
    return (yield from _bulk(queue, wanted, most, "dead/retry", request, [int(anew)]))


def delete_one(queue: QueueKeys, id: str, request: str) -> Protocol[bool]:
    """Delete one dead job; return False when it is not dead."""
    _, gone = yield script_call("dead/delete", queue, [1, records.raw(id), ""], log=queue.step(request))
    return bool(gone)


def delete(queue: QueueKeys, wanted: Filter, request: str, most: int | None) -> Protocol[int]:
    """Delete all matching jobs, or the oldest `most` of them; return their number."""
    return (yield from _bulk(queue, wanted, most, "dead/delete", request, []))


def _bulk(
    queue: QueueKeys, wanted: Filter, most: int | None, name: str, request: str, options: list[Argument]
) -> Protocol[int]:
    cursor, step, done = Cursor(), 0, 0
    limit = _until_now(wanted)
    while most is None or done < most:
        size = (_MOVES, 0) if wanted.plain else (PAGE, HEAD)
        reading = yield from read_some(queue, limit, cursor, *size, newest=False)
        chosen = [job for job in reading.jobs if wanted.matches(job)]
        while chosen and (most is None or done < most):
            batch = chosen if most is None else chosen[: most - done]
            step += 1
            looked, moved = yield script_call(name, queue, [step, *options, *_marks(batch)], log=queue.step(request))
            chosen = chosen[looked:]
            done += moved
        cursor = reading.cursor
        if not reading.more:
            break
    return done


def _until_now(wanted: Filter) -> Filter:
    """Exclude jobs that die from now on. Otherwise reading may never end, and an age may be negative."""
    return replace(wanted, least_age=wanted.least_age or 0)


def _marks(jobs: list[DeadJob]) -> Iterator[Argument]:
    for job in jobs:
        yield records.raw(job.id)
        yield job.died


class Bounds(Struct, frozen=True):
    """Limits of the dead set (maximum age in ms, and number of jobs), and of the history of other ended jobs."""

    ttl_ms: int
    limit: int
    history: str = ""
    """Number of jobs, or `NUMBERms` for a maximum age; "0": no history, "": the default number."""


def trim(queue: QueueKeys, bounds: Bounds) -> Protocol[tuple[int, bool]]:
    """Delete a batch of dead jobs and history beyond the bounds; return how many dead jobs, and True if more remain."""
    args: list[Argument] = [bounds.ttl_ms, bounds.limit, _TRIM, bounds.history]
    gone, more = yield script_call("dead/trim", queue, args, patience=0.5)
    return gone, bool(more)


PAGE = 200
_SEEN = 2048
"""Bytes of each record to show on a page."""
HEAD = 512
"""Bytes of a record that suffice to read its task."""
_TIME = re.compile(r"[-+]?(\d+(\.\d+)?(e[-+]?\d+)?|inf)")
_MS = re.compile(r"\d{1,15}")


class Filter(Struct, frozen=True):
    """A filter of dead jobs; a field that is None matches all jobs."""

    task: str | None = None
    error: str | None = None
    """Name of the error's type."""
    text: str | None = None
    """Part of the error's type or text."""
    least_age: int | None = None
    """Minimum time since its death, in ms; `most_age` is the maximum."""
    most_age: int | None = None

    @property
    def plain(self) -> bool:
        """True if the server can apply the filter without the records."""
        return self.task is None and self.error is None and self.text is None

    def matches(self, job: DeadJob) -> bool:
        """Return True if the job matches; ignores its age."""
        return (
            (self.task is None or self.task == job.call.task)
            and (self.error is None or self.error == job.error.type)
            and (self.text is None or self.text in f"{job.error.type}: {job.error.text}")
        )


@dataclass(frozen=True, slots=True)
class DeadJob:
    """One dead job, at the time of the read; times are in seconds."""

    id: str
    call: records.StoredCall
    error: Fault
    attempts: int
    crashes: int
    """Number of attempts that ended with the death of a process that ran only this job."""
    shared_crashes: int
    """Number of attempts that ended with the death of a process that also ran other jobs."""
    dead_for: float
    age: float | None
    """Time since it was enqueued; None when its id has no time."""
    died: str
    """Stored time of its death, which differs from the time of a later death."""


@dataclass(frozen=True, slots=True)
class DeadPage:
    """A page of dead jobs; pass `next`, which is None on the last page, as `after` to read the next page.

    `problem` is the server's error text for a key that could not be read, or None.
    """

    jobs: list[DeadJob]
    next: str | None
    problem: str | None
    at_ms: int = 0
    """The server's time at the first page, which is the reference of ages on all pages."""


@dataclass(frozen=True, slots=True)
class DeadGroup:
    """Dead jobs of one task with one type of error; times are seconds since they died."""

    error: str
    task: str | None
    count: int
    oldest: float
    newest: float
    example: DeadJob
    """The newest job of the group."""


class Reading(Struct, frozen=True):
    """The result of one call."""

    jobs: list[DeadJob]
    cursor: Cursor
    """Position after the last job that was read."""
    count: int
    """Number of all dead jobs of the wanted age."""
    more: bool
    problem: str


class Cursor(Struct, frozen=True):
    """A position: the reference time of ages, and the last job that was read, by time and id."""

    at: int | str = ""
    died: str = ""
    id: bytes = b""

    @classmethod
    def read(cls, text: str) -> Cursor:
        """Parse the text of a cursor; raises ValueError."""
        at, died, id = text.split(" ", 2)
        if not _TIME.fullmatch(died) or not _MS.fullmatch(at):
            raise ValueError(text)
        return cls(int(at), died, records.raw(id))

    def __str__(self) -> str:
        return f"{self.at} {self.died} {records.name(self.id)}"


def check_cursor(after: str) -> None:
    """Raise ValueError if the text is not the `next` of a page."""
    Cursor.read(after)


def page(queue: QueueKeys, wanted: Filter, after: str, most: int, *, newest: bool) -> Protocol[DeadPage]:
    """Read up to `most` jobs after the position `after`: the `next` of the previous page, or '' for the first page.

    Each call reads a bounded number of jobs. If few jobs match, it makes calls until `most` are found or all are read.
    """
    cursor = Cursor.read(after) if after else Cursor()
    jobs: list[DeadJob] = []
    problem = ""
    while True:
        step = PAGE if not wanted.plain else min(PAGE, most - len(jobs))
        reading = yield from read_some(queue, wanted, cursor, step, _SEEN, newest=newest)
        problem = problem or reading.problem
        cursor = reading.cursor
        for job in reading.jobs:
            if wanted.matches(job):
                jobs.append(job)
                if len(jobs) == most:
                    more = reading.more or job is not reading.jobs[-1]
                    ends = Cursor(cursor.at, job.died, records.raw(job.id))
                    return DeadPage(jobs, str(ends) if more else None, problem or None, int(cursor.at))
        if not reading.more:
            return DeadPage(jobs, None, problem or None, int(cursor.at))


def behind(found: DeadPage, job: DeadJob) -> str:
    """Return the `after` of a page that begins after this job."""
    return str(Cursor(found.at_ms, job.died, records.raw(job.id)))


def read_some(
    queue: QueueKeys, wanted: Filter, cursor: Cursor, most: int, size: int, *, newest: bool
) -> Protocol[Reading]:
    """Read up to `most` jobs of the wanted age after `cursor`, with up to `size` bytes of each record."""
    ages: list[Argument] = ["" if age is None else age for age in (wanted.least_age, wanted.most_age)]
    args: list[Argument] = [int(newest), cursor.at, *ages, cursor.died, cursor.id, most, size]
    at, count, more, problem, *fields = yield script_call("dead/page", queue, args)
    jobs = [_job(at, *fields[start : start + 6]) for start in range(0, len(fields), 6)]
    ends = Cursor(at, jobs[-1].died, records.raw(jobs[-1].id)) if jobs else Cursor(at, cursor.died, cursor.id)
    return Reading(jobs, ends, count, bool(more), problem.decode(errors="replace"))


def _job(now: int, id: bytes, died: bytes, tried: bytes, size: int, record: bytes, stored: bytes) -> DeadJob:
    name = records.name(id)
    counts = records.counts(tried)
    enqueued_at = records.made(name, record)
    return DeadJob(
        name,
        records.read(record, size, name),
        records.fault(stored),
        counts.attempts,
        counts.crashes,
        counts.shared,
        (now - float(died)) / 1000,
        None if enqueued_at is None else now / 1000 - enqueued_at,
        died.decode(),
    )


def get(queue: QueueKeys, id: str) -> Protocol[DeadJob | None]:
    """Read one dead job completely; None when it is not dead."""
    now, _, *fields = yield script_call("dead/get", queue, [records.raw(id)])
    return _job(now, *fields) if fields else None


def count(queue: QueueKeys, wanted: Filter) -> Protocol[int]:
    """Count the matching jobs."""
    if wanted.plain:
        return (yield from read_some(queue, wanted, Cursor(), 0, 0, newest=False)).count
    cursor, matching, limit = Cursor(), 0, _until_now(wanted)
    while True:
        reading = yield from read_some(queue, limit, cursor, PAGE, HEAD, newest=False)
        matching += sum(map(wanted.matches, reading.jobs))
        cursor = reading.cursor
        if not reading.more:
            return matching


def groups(queue: QueueKeys, wanted: Filter) -> Protocol[list[DeadGroup]]:
    """Group the matching jobs by error and task, the largest group first. Excludes jobs that die during the call."""
    cursor, limit = Cursor(), _until_now(wanted)
    counts: defaultdict[tuple[str, str], int] = defaultdict(int)
    newest: dict[tuple[str, str], DeadJob] = {}
    oldest: dict[tuple[str, str], float] = {}
    while True:
        reading = yield from read_some(queue, limit, cursor, PAGE, HEAD, newest=False)
        for job in filter(wanted.matches, reading.jobs):
            kind = (job.error.type, job.call.task or "")
            counts[kind] += 1
            newest[kind] = job
            oldest.setdefault(kind, job.dead_for)
        cursor = reading.cursor
        if not reading.more:
            break
    largest = sorted(counts, key=lambda kind: (-counts[kind], kind))
    return [
        DeadGroup(
            kind[0], newest[kind].call.task, counts[kind], oldest[kind], newest[kind].dead_for, newest[kind]
        )
        for kind in largest
    ]  # fmt: skip
