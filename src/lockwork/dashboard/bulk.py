"""Changes of many jobs: counted first, then applied in bounded steps while the page shows the progress, and undone."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterator, Sequence
from datetime import datetime
from typing import Any, Literal, cast

from msgspec import Struct

from lockwork.app.lockwork import Lockwork
from lockwork.dashboard.formats import refusal
from lockwork.durations import seconds
from lockwork.errors import ConfigError, LockworkError
from lockwork.jobs.job import Job, ashown_snapshot
from lockwork.jobs.search import JobFilter, JobPage, JobRow, JobState
from lockwork.jobs.snapshot import JobSnapshot
from lockwork.logs import Log
from lockwork.words import several

log: Log = Log("lockwork.dashboard")

Action = Literal["retry", "cancel", "delete"]
Stage = Literal["counting", "counted", "running", "ended", "undoing", "undone", "failed"]
_ACTIVE = ("counting", "running", "undoing")
_ENDED: tuple[JobState, ...] = ("dead", "succeeded", "cancelled", "expired")
_COUNTED: tuple[JobState, ...] = ("running", "ready", "scheduled", "blocked", "dead", "done")
"""States whose jobs the server counts without reading them."""
_SHOWN = 10
"""Number of jobs in the preview."""
_STEP = 1000
"""Maximum number of jobs in one step of a count or a change."""
_READ = 4000
"""Number of records that one step reads, in several calls."""
_AT_ONCE = 50
"""Maximum number of concurrent calls that change jobs."""
_MOST_UNDONE = 100_000
"""Maximum number of changed jobs that are remembered, to undo the change."""
_LOST = "it already runs, is still ending, or history no longer has it"
"""Reason why a cancelled job may not run again."""
_UNDECIDED = "history has only the beginning of a long record, which does not decide whether the job matches"
"""Reason why jobs that may match stay unchanged."""
_IDLE = 60.0
"""Seconds without a viewer until a count ends."""
_KEPT = 900.0
"""Seconds without a viewer until a change is forgotten."""
_COUNTS = 8
"""Maximum number of concurrent counts."""
_MOST = 50
"""Maximum number of remembered changes."""


class Verb(Struct, frozen=True):
    """An action on jobs, and the states of those jobs."""

    states: tuple[JobState, ...]
    """States of jobs that it can change."""
    why: str
    """Reason why it does not apply to other states."""
    told: tuple[str, str]
    """Description of the effect on one job, and on several."""
    left: str
    """Reason why it may fail for some jobs."""


VERBS: dict[Action, Verb] = {
    "retry": Verb(
        ("dead", "cancelled", "expired"),
        "Only dead, cancelled and expired jobs can run again. Enqueue a successful job anew.",
        ("runs again", "run again"),
        "it changed state, its record is gone, or another job has its unique name",
    ),
    "cancel": Verb(
        ("running", "ready", "scheduled", "blocked"),
        "Only waiting or running jobs can be cancelled.",
        ("is cancelled", "are cancelled"),
        "it has ended",
    ),
    "delete": Verb(
        ("ready", "scheduled", "blocked", "done"),
        "A running job cannot be deleted: cancel it first.",
        ("is deleted", "are deleted"),
        "it has started, or no longer exists",
    ),
}


def states_for(action: Action, chosen: str) -> tuple[JobState, ...]:
    """Return the states to change if a page shows jobs of the state `chosen`; () if there are none."""
    states = VERBS[action].states
    if not chosen:
        return states
    if chosen == "done":
        return tuple(state for state in states if state in (*_ENDED, "done"))
    if chosen in states or ("done" in states and chosen in _ENDED):
        return (chosen,)
    return ()


class Target(Struct, frozen=True):
    """The target jobs: the selected ones, or all that match."""

    queue: str | None
    matching: JobFilter
    picked: tuple[tuple[str, str], ...] | None
    """Partition and id of each job that was selected."""


class Preview(Struct, frozen=True):
    """One of the target jobs."""

    id: str
    queue: str
    state: str
    task: str | None
    args: tuple[Any, ...] | None
    kwargs: dict[str, Any] | None
    hidden: bool
    encrypted: bool

    @classmethod
    def of(cls, job: JobRow | JobSnapshot, partition: str) -> Preview:
        """Return the preview of a job."""
        return cls(job.id, partition, job.state, job.task, job.args, job.kwargs, job.hidden, job.encrypted)


Search = Callable[..., Awaitable[JobPage]]
"""Reads a page of jobs as a user may see them: `View.search`."""


class Change:
    """One change of many jobs, from its count to its undo; once begun, it continues without viewers."""

    def __init__(self, lw: Lockwork, action: Action, target: Target, search: Search) -> None:
        self.action: Action = action
        self.verb: Verb = VERBS[action]
        self.states: tuple[JobState, ...] = states_for(action, target.matching.get("state") or "")
        self.stage: Stage = "counting"
        self.count: int = 0
        """Number of target jobs counted so far."""
        self.unfit: int = 0
        """Number of selected jobs that the action cannot change."""
        self.searched: int = 0
        self.total: int = 0
        """Number of jobs in the searched states."""
        self.undecided: int = 0
        """Number of jobs that may match but stay unchanged, because the kept part of the record does not decide it."""
        self.preview: list[Preview] = []
        self.changed: int = 0
        self.failed: int = 0
        self.to_undo: int = 0
        self.undone: int = 0
        self.trouble: str = ""
        self.seen: float = time.monotonic()
        """Time of the last request by a viewer."""
        self._lw = lw
        self._target = target
        self._find = search
        self._since = time.monotonic()
        self._stopping = False
        self._picked: list[tuple[str, str]] = []
        """Selected jobs that the action can change."""
        self._changed: list[tuple[str, str]] = []
        self._by = ""
        self._task = self._start(self._count())

    @property
    def active(self) -> bool:
        """True while it counts, changes or undoes."""
        return self.stage in _ACTIVE

    @property
    def undoable(self) -> bool:
        """True if the change can be undone."""
        return self.action == "cancel" and self.stage == "ended" and 0 < self.changed <= _MOST_UNDONE

    @property
    def by_hand(self) -> bool:
        """True if the jobs were selected one by one."""
        return self._target.picked is not None

    @property
    def said(self) -> str:
        """Describe the result and the number of jobs."""
        if self.stage in ("undoing", "undone"):
            left = self.to_undo - self.undone if self.stage == "undone" else 0
            again = several(self.undone, "job runs again", "jobs run again")
            return f"{again}." + (f" {several(left, 'job')} could not be revived: {_LOST}." if left else "")
        one, many = self.verb.told
        text = f"{several(self.changed, f'job {one}', f'jobs {many}')}."
        if self.failed:
            text += f" {several(self.failed, 'job')} could not be changed: {self.verb.left}."
        if self.undecided:
            text += f" {self.left_out}"
        return f"{text} {self.trouble}".rstrip()

    @property
    def left_out(self) -> str:
        """Describe the number of skipped jobs, and the reason."""
        return f"{several(self.undecided, 'job is', 'jobs are')} left out: {_UNDECIDED}." if self.undecided else ""

    def run(self, most: int, by: str) -> None:
        """Change at most `most` jobs, the confirmed number."""
        if self.stage in ("counting", "counted"):
            self._task.cancel()
            self.count, self.stage, self._by = most, "running", by
            self._task = self._start(self._carry_out(most))

    def undo(self, by: str) -> None:
        """Run the cancelled jobs again."""
        if self.undoable:
            self.stage, self._by, self.to_undo, self._stopping = "undoing", by, len(self._changed), False
            self._task = self._start(self._revive())

    def stop(self) -> None:
        """End after the current step; changed jobs stay changed."""
        self._stopping = True

    async def settled(self, seconds: float) -> None:
        """Wait until counting, changing and undoing have ended, for at most `seconds`."""
        self.seen = time.monotonic()
        if self.active:
            await asyncio.wait([self._task], timeout=seconds)

    def _start(self, work: Awaitable[None]) -> asyncio.Task[None]:
        return asyncio.ensure_future(self._watched(work))

    async def _watched(self, work: Awaitable[None]) -> None:
        try:
            await work
        except (LockworkError, TimeoutError) as error:
            self.trouble = refusal(error)
            self.stage = "failed" if self.stage == "counting" else "ended"
        if self.stage in ("ended", "undone"):
            log.info("action jobs.%s of many by %r has ended: %r", self.action, self._by, self.said)

    async def _count(self) -> None:
        if self._target.picked is not None:
            await self._look_at(self._target.picked)
        else:
            all_of_state = all(name == "state" for name in self._target.matching)
            for state in self.states:
                if all_of_state and state in _COUNTED:  # history has no count by outcome
                    page = await self._find(self._target.queue, JobFilter(state=state), limit=_SHOWN)
                    self.count += page.total
                    self._show(page)
                elif not await self._search(state):
                    return
        self.stage = "counted"

    async def _search(self, state: JobState) -> bool:
        """Count the matching jobs of a state; return False if no viewer remains."""
        before = self.total
        async for page in self._pages(state, newest=True):
            self.count += len(page.jobs)
            self.searched += page.searched
            self.undecided += page.undecided
            self.total = before + page.total
            self._show(page)
            if time.monotonic() - self.seen > _IDLE:
                return False
        return True

    async def _look_at(self, picked: Sequence[tuple[str, str]]) -> None:
        fit = {*self.verb.states, *(_ENDED if "done" in self.verb.states else ())}
        for job in await asyncio.gather(*(ashown_snapshot(self._job(each)) for each in picked)):
            if job.state in fit:
                self.count += 1
                self._picked.append((job.queue, job.id))
                self.preview.append(Preview.of(job, job.queue))
            else:
                self.unfit += 1

    def _show(self, page: JobPage) -> None:
        self.preview += [Preview.of(job, job.partition) for job in page.jobs[: _SHOWN - len(self.preview)]]

    async def _carry_out(self, most: int) -> None:
        change: Callable[[Job[Any]], Awaitable[bool]] = {"retry": Job.aretry, "cancel": Job.acancel}.get(
            self.action, Job.adelete
        )
        async for some in self._batches():
            left = some
            while left and self.changed < most:
                tried, left = left[: most - self.changed], left[most - self.changed :]
                done = await asyncio.gather(*(change(self._job(each)) for each in tried))
                successes = [each for each, good in zip(tried, done, strict=True) if good]
                self.changed += len(successes)
                self.failed += len(tried) - len(successes)
                self._changed += successes if self.changed <= _MOST_UNDONE else []
            if self.changed >= most or self._stopping:
                break
        self.stage = "ended"

    async def _batches(self) -> AsyncIterator[list[tuple[str, str]]]:
        """Yield each target job once; changed jobs move, so this searches until it finds no new job."""
        if self._target.picked is not None:
            for batch in _cut(self._picked or self._target.picked):
                yield batch
            return
        targets, before = set[tuple[str, str]](), -1
        while len(targets) > before:
            before = len(targets)
            for state in self.states:
                # the oldest first: jobs that came after the count are not targets
                async for page in self._pages(state, newest=False):
                    fresh = [each for job in page.jobs if (each := (job.partition, job.id)) not in targets]
                    targets.update(fresh)
                    for batch in _cut(fresh):
                        yield batch

    async def _pages(self, state: JobState, *, newest: bool) -> AsyncIterator[JobPage]:
        """Read all jobs of a state; a span of time is relative to the start of the count."""
        after = None
        while True:
            away = time.monotonic() - self._since
            conditions: dict[str, Any] = {**self._target.matching, "state": state}
            for name in ("since", "until"):
                if name in conditions and not isinstance(conditions[name], datetime):
                    conditions[name] = seconds(conditions[name], name, zero=True) + away
            matching = cast("JobFilter", conditions)
            page = await self._find(self._target.queue, matching, limit=_STEP, budget=_READ, after=after, newest=newest)
            yield page
            after = page.next
            if after is None:
                return

    async def _revive(self) -> None:
        for batch in _cut(self._changed):
            self.undone += sum(await asyncio.gather(*(self._job(each).aretry() for each in batch)))
            if self._stopping:
                break
        self.stage = "undone"

    def _job(self, each: tuple[str, str]) -> Job[Any]:
        partition, id = each
        return self._lw.job(id, partition)


class RecentChanges:
    """The changes of the last minutes, by user and request."""

    def __init__(self) -> None:
        self._found: dict[Hashable, Change] = {}

    def get(self, key: Hashable, make: Callable[[], Change]) -> Change:
        """Return the change of this key; create it if it is new, or if it had no viewer for a while.

        Raises ConfigError when too many counts run.
        """
        now = time.monotonic()
        for each in [
            *(key for key, change in self._found.items() if not change.active and now - change.seen > _KEPT),
            *(key for key, change in self._found.items() if change.stage == "counting" and now - change.seen > _IDLE),
        ]:
            del self._found[each]
        if key not in self._found:
            if sum(change.stage == "counting" for change in self._found.values()) >= _COUNTS:
                raise ConfigError("Too many jobs are being counted: try again in a minute.")
            done = [each for each, change in self._found.items() if not change.active]
            for each in done[: max(0, len(self._found) + 1 - _MOST)]:
                del self._found[each]
            self._found[key] = make()
        return self._found[key]


def _cut(jobs: Sequence[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    for at in range(0, len(jobs), _AT_ONCE):
        yield list(jobs[at : at + _AT_ONCE])
