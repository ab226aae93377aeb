"""Waits for the ends of many jobs at once: one subscription for all, and one round trip for many results."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType
from typing import Generic, NamedTuple, Self, TypeVar

from lockwork.durations import Duration, seconds
from lockwork.errors import ConfigError, ResultTimeout, ServerRefused
from lockwork.hashes import random_bytes
from lockwork.jobs.job import Job, Origin, origin_of, search_for, unended_text
from lockwork.jobs.waits import Wait, warn_if_unserved
from lockwork.protocol.effects import Clock, Protocol, concurrently
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.messages import Hints, listen
from lockwork.protocol.queue import leases
from lockwork.protocol.queue.leases import RECHECK, JobState
from lockwork.protocol.retry import patience
from lockwork.runtime.runtime import Runtime
from lockwork.runtime.wakeups import Follower

R = TypeVar("R")

_ROUND_TRIP = 200
"""Jobs that are read in one round trip."""


class Ended(NamedTuple, Generic[R]):
    """A job that has ended, its position among the added jobs, and its outcome."""

    at: int
    job: Job[R]
    outcome: JobState


class _Awaited(Generic[R]):
    """One job on the server, with all its handles and their positions."""

    __slots__ = ("handles", "id", "keys")

    def __init__(self, keys: QueueKeys, id: str) -> None:
        self.keys = keys
        self.id = id
        self.handles: list[tuple[int, Job[R]]] = []


class Completion(Generic[R]):
    """Waits for jobs, and returns them in the order of their ends.

    Use it in a `with` block: call `prepare` and run `next`, until that returns no jobs.
    """

    def __init__(self, timeout: Duration | None = None) -> None:
        self._limit = None if timeout is None else seconds(timeout, "timeout", zero=True)
        self._give_up: float | None = None
        self._began: float | None = None
        self._runtime: Runtime | None = None
        self._unplaced: list[tuple[int, Job[R]]] = []
        """New handles, whose queue may not be known yet."""
        self._pending: dict[tuple[str, str], _Awaited[R]] = {}
        """Jobs that have not ended, by queue and id, in the order of the caller."""
        self._by_id: dict[str, list[tuple[str, str]]] = {}
        self._unread: deque[tuple[str, str]] = deque()
        self._rechecks: deque[tuple[str, str]] = deque()
        """Jobs in the order of the next checks without a message."""
        self._follower = Follower(f"completion:{random_bytes(8).hex()}")
        self._hints = Hints()
        self._hinted = False
        """True if a message caused the next reads."""
        self._wait: Wait | None = None
        self._stack = contextlib.ExitStack()
        self._slots: set[str] = set()
        self._warned = False
        self.added: int = 0
        """Number of added jobs."""

    @property
    def runtime(self) -> Runtime | None:
        """The runtime of the first job, which makes the calls for all; None without a job."""
        return self._runtime

    def add(self, jobs: Iterable[Job[R]]) -> int:
        """Wait for more jobs; return their number. Raises ConfigError for other objects, or jobs of several servers."""
        added = list(jobs)
        for job in added:
            if not isinstance(job, Job):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without a type checker
                raise ConfigError(f"expected the jobs that enqueue and enqueue_many return, not {job!r:.80}")
            if self._runtime is None:
                self._runtime = origin_of(job).runtime
            elif not self._runtime.shares_server(origin_of(job).runtime):
                raise ConfigError(
                    f"job {job.id} in queue {job.queue!r} belongs to a Lockwork object with another server, database "
                    "or user: wait for its jobs in a separate call"
                )
        self._unplaced += enumerate(added, self.added)
        self.added += len(added)
        return len(added)

    @property
    def unended(self) -> list[int]:
        """The positions of the jobs that have not ended."""
        return [at for at, _ in self._handles()]

    def _handles(self) -> Iterator[tuple[int, Job[R]]]:
        for each in self._pending.values():
            yield from each.handles
        yield from self._unplaced

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._announce(None)
        self._stack.close()
        self._slots.clear()

    def prepare(self) -> None:
        """Report to the worker which jobs the current job waits for, before each `next`."""
        self._announce(next((job for _, job in self._handles()), None))

    def _announce(self, job: Job[R] | None) -> None:
        """Announce the first job that has not ended; the worker of a waiting job reports waits that never end."""
        if self._wait is not None and (job is None or self._wait.id != job.id):
            self._wait.__exit__(None, None, None)
            self._wait = None
        if job is not None and self._wait is None:
            self._wait = Wait(job)
            self._wait.__enter__()

    def next(self) -> Protocol[list[Ended[R]]]:
        """Wait for jobs to end, and return some of them; [] after the last job.

        Raises ResultTimeout.
        """
        now = yield Clock()
        if self._began is None:
            self._began = now
            self._give_up = None if self._limit is None else now + self._limit
        yield from self._place()
        while True:
            while self._unread:
                if ended := (yield from self._read_some()):
                    if self._hinted:
                        self._hints.refund()
                    self._hinted = False
                    return ended
            if not self._pending:
                return []
            now = yield Clock()
            if self._give_up is not None and now >= self._give_up:
                raise (yield from self._timed_out())
            yield from self._wait_for_messages(now)

    def _place(self) -> Protocol[None]:
        """Find the queues of new handles, and follow their jobs."""
        if not self._unplaced:
            return
        unknown = [job for _, job in self._unplaced if search_for(job) is not None]
        for at in range(0, len(unknown), _ROUND_TRIP):
            yield from self._search(unknown[at : at + _ROUND_TRIP])
        handles, self._unplaced = self._unplaced, []
        slots: set[str] = set()
        for at, job in handles:
            keys = origin_of(job).keys
            place = (keys.jobs, job.id)
            awaited = self._pending.get(place)
            if awaited is None:
                awaited = self._pending[place] = _Awaited(keys, job.id)
                self._by_id.setdefault(job.id, []).append(place)
                self._unread.append(place)
                self._rechecks.append(place)
                slots.add(keys.jobs)
            awaited.handles.append((at, job))
        self._follower.tickets.update(job.id for _, job in handles)
        self._follow(slots - self._slots)

    def _search(self, jobs: Sequence[Job[R]]) -> Protocol[None]:
        """Find the queues of jobs in shared round trips, or one after the other if the user may not list all queues."""
        try:
            yield from concurrently([search for job in jobs if (search := search_for(job)) is not None])
        except ServerRefused:
            for job in jobs:
                if (search := search_for(job)) is not None:
                    yield from search

    def _follow(self, slots: set[str]) -> None:
        """Receive the messages of more queues, before the calls that request them."""
        runtime = self._runtime
        if slots and runtime is not None and not runtime.replaced:
            self._stack.enter_context(runtime.engine.following(self._follower, slots))
            self._slots |= slots

    def _read_some(self) -> Protocol[list[Ended[R]]]:
        """Read jobs in one round trip; return the ended ones."""
        places: list[tuple[str, str]] = []
        while self._unread and len(places) < _ROUND_TRIP:
            place = self._unread.popleft()
            if place in self._pending:
                places.append(place)
        places = list(dict.fromkeys(places))
        if not places or self._runtime is None:
            return []
        limit, channel = patience(self._give_up, (yield Clock())), self._runtime.channel
        reads = [leases.job_state(self._pending[place].keys, place[1], channel, limit) for place in places]
        states: list[JobState] = yield from concurrently(reads)
        ended: list[Ended[R]] = []
        overdue: dict[str, Origin] = {}
        for place, state in zip(places, states, strict=True):
            if state.state == "overdue":
                overdue[place[0]] = origin_of(self._pending[place].handles[0][1])
                self._unread.append(place)
            elif state.state not in leases.UNENDED:
                ended += self._end(place, state)
        for origin in overdue.values():
            yield from leases.expire(origin.keys, origin.runtime.window_ms)
        return ended

    def _end(self, place: tuple[str, str], state: JobState) -> list[Ended[R]]:
        handles = self._pending.pop(place).handles
        others = self._by_id[place[1]]
        others.remove(place)
        if not others:
            del self._by_id[place[1]]
            self._follower.tickets.discard(place[1])
        return [Ended(at, job, state) for at, job in handles]

    def _wait_for_messages(self, now: float) -> Protocol[None]:
        """Wait for messages about the jobs; without one, check some jobs again, in case their messages were lost."""
        follower = self._follower
        until = now + RECHECK if self._give_up is None else min(now + RECHECK, self._give_up)
        if not self._collect() and not follower.missed:
            self._hinted = (yield from listen(self._hints, follower.ticket, until)) is not None
            if not self._collect() and not self._hinted:
                self._recheck()
                yield from self._warn()
        if follower.missed:
            follower.missed = False
            self._unread = deque(self._pending)

    def _collect(self) -> bool:
        """Plan to read the jobs whose messages have arrived; return True if there are any."""
        arrived = self._follower.arrived
        while arrived:
            self._unread += self._by_id.get(arrived.popleft(), ())
        return bool(self._unread)

    def _recheck(self) -> None:
        for _ in range(min(_ROUND_TRIP, len(self._rechecks))):
            place = self._rechecks.popleft()
            if place in self._pending:
                self._unread.append(place)
                self._rechecks.append(place)

    def _warn(self) -> Protocol[None]:
        """Log once that the wait may never end, as `result` does."""
        if self._limit is None and not self._warned and self._runtime is not None:
            self._warned = True
            first = next(iter(self._pending.values()))
            yield from warn_if_unserved(self._runtime, first.keys, first.id, f"job {first.id}")

    def _timed_out(self) -> Protocol[ResultTimeout]:
        jobs = [job for _, job in self._handles()]
        text = yield from unended_text(jobs[0])
        if len(jobs) > 1:
            text = f"{len(jobs):,} of {self.added:,} jobs have not ended yet; the first: {text}"
        return ResultTimeout(text)
