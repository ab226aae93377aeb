"""The dead set: jobs that failed for good, read a page at a time, counted and grouped."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace

from lockwork.protocol.effects import Argument, Protocol, script_call
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import records
from lockwork.protocol.queue.records import Fault

_MOVES = 500
_TRIM = 500


def retry_one(queue: QueueKeys, id: str, request: str, *, anew: bool) -> Protocol[bool]:
    """Make one job ready to run again; False when it is not dead."""
    args: list[Argument] = [1, int(anew), records.raw(id), ""]
    _, moved = yield script_call("dead/retry", queue, args, log=queue.step(request))
    return bool(moved)


def retry(queue: QueueKeys, wanted: Filter, request: str, most: int | None, *, anew: bool) -> Protocol[int]:
    """Make all that match ready to run again, or `most` of them, the oldest first; returns how many.

    Those that die from now on are not meant.
    """
    return (yield from _bulk(queue, wanted, most, "dead/retry", request, [int(anew)]))


def delete_one(queue: QueueKeys, id: str, request: str) -> Protocol[bool]:
    """Delete one job; False when it is not dead."""
    _, gone = yield script_call("dead/delete", queue, [1, records.raw(id), ""], log=queue.step(request))
    return bool(gone)


def delete(queue: QueueKeys, wanted: Filter, request: str, most: int | None) -> Protocol[int]:
    """Delete all that match, or `most` of them, the oldest first; returns how many."""
    return (yield from _bulk(queue, wanted, most, "dead/delete", request, []))


def _bulk(
    queue: QueueKeys, wanted: Filter, most: int | None, name: str, request: str, options: list[Argument]
) -> Protocol[int]:
    cursor, step, done = Cursor(), 0, 0
    limit = _until_now(wanted)
    while most is None or done < most:
        size = (_MOVES, 0) if wanted.plain else (PAGE, HEAD)
        found = yield from read_some(queue, limit, cursor, *size, newest=False)
        chosen = [job for job in found.jobs if wanted.matches(job)]
        while chosen and (most is None or done < most):
            batch = chosen if most is None else chosen[: most - done]
            step += 1
            looked, moved = yield script_call(name, queue, [step, *options, *_marks(batch)], log=queue.step(request))
            chosen = chosen[looked:]
            done += moved
        cursor = found.cursor
        if not found.more:
            break
    return done


def _until_now(wanted: Filter) -> Filter:
    """Exclude jobs that die from now on: reading might never end, and an age could be negative."""
    return replace(wanted, least_age=wanted.least_age or 0)


def _marks(jobs: list[DeadJob]) -> Iterator[Argument]:
    for job in jobs:
        yield records.raw(job.id)
        yield job.died


@dataclass(frozen=True, slots=True)
class Bounds:
    """How long a dead job is kept, in ms, and how many of them are; and what is kept of other jobs that have ended."""

    ttl_ms: int
    limit: int
    history: str = ""
    """How many jobs, or `NUMBERms`: for how long; "0": none, "": as many as by default."""


def trim(queue: QueueKeys, bounds: Bounds) -> Protocol[tuple[int, bool]]:
    """Take away some of what is beyond the bounds; returns how many those were, and whether there are more."""
    args: list[Argument] = [bounds.ttl_ms, bounds.limit, _TRIM, bounds.history]
    gone, more = yield script_call("dead/trim", queue, args, patience=0.5)
    return gone, bool(more)


PAGE = 200
_SEEN = 2048
"""Bytes of a record that a page shows."""
HEAD = 512
"""Bytes of a record that are enough to know its task."""
_TIME = re.compile(r"[-+]?(\d+(\.\d+)?(e[-+]?\d+)?|inf)")
_MS = re.compile(r"\d{1,15}")


@dataclass(frozen=True, slots=True)
class Filter:
    """Which dead jobs are meant; None does not ask."""

    task: str | None = None
    error: str | None = None
    """The name of the error's type."""
    text: str | None = None
    """What the error's type or text contains."""
    least_age: int | None = None
    """Milliseconds since it died."""
    most_age: int | None = None

    @property
    def plain(self) -> bool:
        """Whether the server can decide it without the records."""
        return self.task is None and self.error is None and self.text is None

    def matches(self, job: DeadJob) -> bool:
        """Whether this job is meant, but for its age."""
        return (
            (self.task is None or self.task == job.call.task)
            and (self.error is None or self.error == job.error.type)
            and (self.text is None or self.text in f"{job.error.type}: {job.error.text}")
        )


@dataclass(frozen=True, slots=True)
class DeadJob:
    """One dead job as it was read; times are in seconds."""

    id: str
    call: records.StoredCall
    error: Fault
    attempts: int
    crashes: int
    """Those of its attempts that ended with the death of a process that ran nothing else."""
    shared_crashes: int
    """Those that ended with the death of a process that ran other jobs, too."""
    dead_for: float
    age: float | None
    """Since it was enqueued; None when its id does not say."""
    died: str
    """Its time in the dead set as the server has it: it tells this death from a later one."""


@dataclass(frozen=True, slots=True)
class DeadPage:
    """Some dead jobs; `next` is what to give as `after` for those behind them, None when there are no more.

    `problem` is what the server said of a key that could not be read, if there is one.
    """

    jobs: list[DeadJob]
    next: str | None
    problem: str | None
    at_ms: int = 0
    """The server's time from which ages count, on this page and those behind it."""


@dataclass(frozen=True, slots=True)
class DeadGroup:
    """Dead jobs of one task with one type of error; times are seconds since they died."""

    error: str
    task: str | None
    count: int
    oldest: float
    newest: float
    example: DeadJob
    """The newest of them."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What one call has read."""

    jobs: list[DeadJob]
    cursor: Cursor
    """Where to go on."""
    count: int
    """Of all dead jobs of such an age."""
    more: bool
    problem: str


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where to go on: the time that ages count from, and the last job that was read, by time and id."""

    at: int | str = ""
    died: str = ""
    id: bytes = b""

    @classmethod
    def read(cls, text: str) -> Cursor:
        """Read what `str` has written; raises ValueError."""
        at, died, id = text.split(" ", 2)
        if not _TIME.fullmatch(died) or not _MS.fullmatch(at):
            raise ValueError(text)
        return cls(int(at), died, records.raw(id))

    def __str__(self) -> str:
        return f"{self.at} {self.died} {records.name(self.id)}"


def check_cursor(after: str) -> None:
    """Raise ValueError for what is not the `next` of a page."""
    Cursor.read(after)


def page(queue: QueueKeys, wanted: Filter, after: str, most: int, *, newest: bool) -> Protocol[DeadPage]:
    """Read up to `most` jobs behind `after`, the `next` of the page before, '' at the beginning.

    One call looks at a bounded number, so a rare kind is looked for until `most` are found or all have been seen.
    """
    cursor = Cursor.read(after) if after else Cursor()
    jobs: list[DeadJob] = []
    problem = ""
    while True:
        step = PAGE if not wanted.plain else min(PAGE, most - len(jobs))
        found = yield from read_some(queue, wanted, cursor, step, _SEEN, newest=newest)
        problem = problem or found.problem
        cursor = found.cursor
        for job in found.jobs:
            if wanted.matches(job):
                jobs.append(job)
                if len(jobs) == most:
                    more = found.more or job is not found.jobs[-1]
                    ends = Cursor(cursor.at, job.died, records.raw(job.id))
                    return DeadPage(jobs, str(ends) if more else None, problem or None, int(cursor.at))
        if not found.more:
            return DeadPage(jobs, None, problem or None, int(cursor.at))


def behind(found: DeadPage, job: DeadJob) -> str:
    """What to give as `after` for those behind this job of a page."""
    return str(Cursor(found.at_ms, job.died, records.raw(job.id)))


def read_some(
    queue: QueueKeys, wanted: Filter, cursor: Cursor, most: int, size: int, *, newest: bool
) -> Protocol[Reading]:
    """Read up to `most` jobs of the wanted age behind `cursor`, and up to `size` bytes of each one's record."""
    ages: list[Argument] = ["" if age is None else age for age in (wanted.least_age, wanted.most_age)]
    args: list[Argument] = [int(newest), cursor.at, *ages, cursor.died, cursor.id, most, size]
    at, count, more, problem, *found = yield script_call("dead/page", queue, args)
    jobs = [_job(at, *found[start : start + 6]) for start in range(0, len(found), 6)]
    ends = Cursor(at, jobs[-1].died, records.raw(jobs[-1].id)) if jobs else Cursor(at, cursor.died, cursor.id)
    return Reading(jobs, ends, count, bool(more), problem.decode(errors="replace"))


def _job(now: int, id: bytes, died: bytes, tried: bytes, size: int, record: bytes, stored: bytes) -> DeadJob:
    name = records.name(id)
    counts = records.counts(tried)
    made = records.made(name)
    return DeadJob(
        name,
        records.read(record, size, name),
        records.fault(stored),
        counts.attempts,
        counts.crashes,
        counts.shared,
        (now - float(died)) / 1000,
        None if made is None else now / 1000 - made,
        died.decode(),
    )


def get(queue: QueueKeys, id: str) -> Protocol[DeadJob | None]:
    """Read all of one dead job; None when it is not dead."""
    now, _, *found = yield script_call("dead/get", queue, [records.raw(id)])
    return _job(now, *found) if found else None


def count(queue: QueueKeys, wanted: Filter) -> Protocol[int]:
    """Count the jobs that match."""
    if wanted.plain:
        return (yield from read_some(queue, wanted, Cursor(), 0, 0, newest=False)).count
    cursor, matching, limit = Cursor(), 0, _until_now(wanted)
    while True:
        found = yield from read_some(queue, limit, cursor, PAGE, HEAD, newest=False)
        matching += sum(map(wanted.matches, found.jobs))
        cursor = found.cursor
        if not found.more:
            return matching


def groups(queue: QueueKeys, wanted: Filter) -> Protocol[list[DeadGroup]]:
    """Group the jobs that match by error and task, the largest group first, without those that die meanwhile."""
    cursor, limit = Cursor(), _until_now(wanted)
    counts: defaultdict[tuple[str, str], int] = defaultdict(int)
    newest: dict[tuple[str, str], DeadJob] = {}
    oldest: dict[tuple[str, str], float] = {}
    while True:
        found = yield from read_some(queue, limit, cursor, PAGE, HEAD, newest=False)
        for job in filter(wanted.matches, found.jobs):
            kind = (job.error.type, job.call.task or "")
            counts[kind] += 1
            newest[kind] = job
            oldest.setdefault(kind, job.dead_for)
        cursor = found.cursor
        if not found.more:
            break
    largest = sorted(counts, key=lambda kind: (-counts[kind], kind))
    return [
        DeadGroup(
            kind[0], newest[kind].call.task, counts[kind], oldest[kind], newest[kind].dead_for, newest[kind]
        )
        for kind in largest
    ]  # fmt: skip
