"""A plain Python model of a queue with pause and limits: jobs that may start, refused pushes, and wake-ups.

The first machine has the queue's rules under changing limits. The second adds all actions on single jobs, so that the
count of running jobs meets every change.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

import hypothesis.strategies as st
from hypothesis.stateful import invariant, precondition, rule

from lockwork.errors import QueueFull, WaitTimeout
from lockwork.protocol.effects import Argument
from lockwork.protocol.queue import enqueue, leases, record_header
from lockwork.protocol.queue import job_control as control
from lockwork.protocol.queue import limits as queue_limits
from lockwork.protocol.queue.enqueue import NewJob
from lockwork.protocol.queue.leases import Batch, Leased, Outcome
from lockwork.words import several
from models.bench import CHANNEL, Bench
from queues.model.job_machine import JobMachine
from queues.model.queue_machine import BODY, DELIVERIES, SESSIONS, WINDOW_MS, QueueMachine

E = TypeVar("E", bound=Exception)

_TURNS = 1000
"""Milliseconds over which the server spreads workers that ask too early."""
_RATES = (None, (1, 1000), (3, 1000), (2, 100), (7, 9000))


def _raised(kind: type[E], run: Callable[[], object]) -> E:
    """Return the error that a call raises. If it raises none, fail with AssertionError, unlike `pytest.raises`."""
    try:
        run()
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__}")


class LimitsMachine(QueueMachine):
    """The rules of the queue, under changing limits."""

    def __init__(self, bench: Bench) -> None:
        self.paused = False
        self.at_once: int | None = None
        self.size: int | None = None
        self.rate: tuple[int, int] | None = None
        self.full = 0
        """Time (us) when the rate would be unused again."""
        self.begun: list[int] = []
        """Start times (us) of jobs under the current rate."""
        self.asleep = False
        self.until: float | None = None
        """Time (ms) of the sleeping worker's next check."""
        self.comes: float | None = None
        """Time (ms) when the rate allows the sleeping worker's next job, if the worker asked too early."""
        super().__init__(bench)

    # -- the rules of the whole queue ---------------------------------------------------------------------------------

    @rule(paused=st.sampled_from([False, False, True]), twice=st.booleans())
    def pause(self, paused: bool, twice: bool) -> None:
        self.paused = paused
        self._change("paused", 1 if paused else "", twice)

    @rule(at_once=st.sampled_from([None, None, 1, 2, 3]), twice=st.booleans())
    def limit_concurrency(self, at_once: int | None, twice: bool) -> None:
        self.at_once = at_once
        self._change("concurrency", "" if at_once is None else at_once, twice)

    @rule(size=st.sampled_from([None, None, None, 0, 2, 5]), twice=st.booleans())
    def limit_size(self, size: int | None, twice: bool) -> None:
        self.size = size
        self._change("size", "" if size is None else size, twice)

    @rule(rate=st.sampled_from(_RATES), twice=st.booleans())
    def limit_rate(self, rate: tuple[int, int] | None, twice: bool) -> None:
        self.begun = []
        self.rate = rate
        self.full = 0 if rate is None else self.full
        self._change("rate", "" if rate is None else f"{rate[0]}/{rate[1]}", twice)

    def _change(self, name: str, value: Argument, twice: bool) -> None:
        found = self.bench.run(queue_limits.change(self.queue, {name: value}), twice=twice)
        assert (found.paused is not None) == self.paused
        assert found[1:4] == (self.rate, self.at_once, self.size)
        assert self.bench.run(queue_limits.rules(self.queue)) == found

    @rule(delayed=st.booleans())
    def drained(self, delayed: bool) -> None:
        """Call `drain` without waiting: its error names the number of waiting and running jobs."""
        look = queue_limits.drain(self.queue, CHANNEL, 0, delayed=delayed)
        waits = sum(job.place in ("ready", "suspect") or (job.place == "scheduled" and (delayed or job.due <= self.ms))
                    for job in self.jobs.values())  # fmt: skip
        if waits or self.leased:
            found = _raised(WaitTimeout, lambda: self.bench.run(look))
            wait, run = several(waits, "job waits", "jobs wait"), several(len(self.leased), "runs", "run")
            assert f"{wait}, {run}" in str(found)
        else:
            self.bench.run(look)

    # -- enqueueing ---------------------------------------------------------------------------------------------------

    @rule(
        new=st.lists(st.tuples(st.integers(0, 2), st.sampled_from([0, 0, 1, 1500])), min_size=1, max_size=6),
        known=st.booleans(),
        twice=st.booleans(),
    )
    def push(self, new: list[tuple[int, int]], known: bool, twice: bool) -> None:
        if self._room_for(len(new)):
            try:
                super().push(new, known, twice)
            except QueueFull as refused:
                raise AssertionError("there is room, or it was for the same jobs") from refused
        else:
            again, batch = self._batch(new, known)
            full = _raised(QueueFull, lambda: self.bench.run(enqueue.push(self.queue, again + batch), twice=twice))
            assert (full.waiting, full.limit) == (self._waiting(), self.size)
        if self.paused:
            assert not self.bench.messages, "nobody is woken to find a queue paused"
        if self.asleep and self.comes is not None and self.ms < self.comes and not self._allowed():
            assert not self.bench.messages, "nobody is woken who comes in time"

    @precondition(lambda self: self.size is not None)
    @rule(
        new=st.lists(st.tuples(st.integers(0, 2), st.sampled_from([0, 0, 1500])), min_size=1, max_size=6),
        known=st.booleans(),
        twice=st.booleans(),
    )
    def push_some(self, new: list[tuple[int, int]], known: bool, twice: bool) -> None:
        """Push with `partial`: the server enqueues the first jobs until the queue is full."""
        assert self.size is not None
        room = max(0, self.size - self._waiting())
        if len(new) > room:
            again, batch = self._batch(new, known)
            pushing_some = enqueue.push(self.queue, again + batch, partial=True)
            full = _raised(QueueFull, lambda: self.bench.run(pushing_some, twice=twice))
            assert full.enqueued == len(again) + room
            self._pushed(batch[:room])
            assert (full.waiting, full.limit) == (self._waiting(), self.size)

    @precondition(lambda self: self.size and self._waiting() < self.size)
    @rule(level=st.integers(0, 2), twice=st.booleans())
    def fill(self, level: int, twice: bool) -> None:
        """Push until the queue is full."""
        assert self.size is not None
        self.push([(level, 0)] * (self.size - self._waiting()), known=False, twice=twice)

    def _waiting(self) -> int:
        return sum(job.place in ("ready", "suspect", "scheduled") for job in self.jobs.values())

    def _room_for(self, count: int) -> bool:
        return self.size is None or self._waiting() + count <= self.size

    # -- leasing ------------------------------------------------------------------------------------------------------

    @rule(session=st.sampled_from(SESSIONS), want=st.integers(1, 4), twice=st.booleans(), sleeps=st.booleans())
    def reserve(self, session: str, want: int, twice: bool, sleeps: bool = False) -> None:
        if session not in self.alive:
            self.beat(session, joins=True)
        self.channel = CHANNEL if sleeps and not twice else ""
        super().reserve(session, want, twice)

    def reserve_suspect(self, session: str, twice: bool) -> None:
        """Override without a rule: a suspect delayed by a limit changes the jobs of others (see test_suspects)."""

    @rule(session=st.sampled_from(SESSIONS), wants=st.lists(st.integers(1, 4), min_size=2, max_size=4))
    def rush(self, session: str, wants: list[int]) -> None:
        """Push more jobs than the limits allow, and ask for them several times."""
        self.push([(1, 0)] * 6, known=False, twice=False)
        for want in wants:
            self.reserve(session, want, twice=False, sleeps=True)

    @precondition(lambda self: self.leased)
    @rule(data=st.data(), many=st.booleans())
    def finish(self, data: st.DataObject, many: bool) -> None:
        """One running job succeeds, or all jobs of its worker."""
        self._finish(data.draw(st.sampled_from(sorted(self.leased))), many)

    @precondition(lambda self: self.leased and not any(job.place == "ready" for job in self.jobs.values()))
    @rule()
    def scheduled_while_full(self) -> None:
        """Fill all running slots, schedule a job, free a slot, and move the clock to the job's time."""
        self.pause(paused=False, twice=False)
        self.limit_concurrency(at_once=len(self.leased), twice=False)
        self.reserve(SESSIONS[0], 1, twice=False, sleeps=True)
        if self.leased and self.asleep:
            self.push([(1, 1500)], known=False, twice=False)
            self._finish(min(self.leased), many=False)
            self.nobody_sleeps_in_vain()
            self.wait(1500)

    def _finish(self, id: str, many: bool) -> None:
        session, _ = self.leased[id]
        batch = [leased for holder, leased in self.leased.values() if holder == session and (many or leased.id == id)]
        outcomes = [Outcome(leased.id, leased.token, "s", self.value(leased.id)) for leased in batch]
        assert all(self.bench.run(leases.settle(self.queue, session, outcomes, WINDOW_MS)))
        for leased in batch:
            self.ended(leased.id, "s", 0)

    def before_reserve(self) -> None:
        super().before_reserve()
        if not self.paused and self.rate is not None and (self.at_once is None or len(self.leased) < self.at_once):
            # after a change of rate, the first reserve call drops usage beyond one period
            self.full = min(self.full, self.bench.now + self.rate[1] * 1000)

    def room(self, want: int) -> int:
        if self.paused:
            return 0
        if self.at_once is not None:
            want = min(want, max(0, self.at_once - len(self.leased)))
        return min(want, self._allowed())

    def _allowed(self) -> int:
        if self.rate is None:
            return 10**6
        count, per = self.rate[0], self.rate[1] * 1000
        full = min(max(self.full, self.bench.now), self.bench.now + per)
        return math.floor((self.bench.now + per - full) * count / per)

    def _soonest(self) -> float:
        """Return the time (ms) when the rate allows one more job, if it allows none now."""
        count, per = self.rate or (1, 1)
        return (min(self.full, self.bench.now + per * 1000) + per * 1000 / count) / 1000 - per

    def leased_now(self, job: Leased) -> None:
        super().leased_now(job)
        self.begun.append(self.bench.now)

    def answered(self, batch: Batch) -> None:
        told = batch.next_due
        began = len(batch.jobs)
        early = False
        assert not self.paused or not began
        assert self.at_once is None or not began or len(self.leased) <= self.at_once
        if self.rate is not None:
            self._check_rate(began)
            free = not self.paused and (self.at_once is None or len(self.leased) < self.at_once)
            early = free and not began and not self._allowed()
            if early:
                assert told is not None, "who comes too early learns when to come again"
                # only one worker sleeps, so it is not spread; a worker without a channel may be
                assert self.ms + told * 1000 <= self._soonest() + 1 + (0 if self.channel else _TURNS)
        if self.channel:
            self.asleep = not began
            self.until = None if told is None else self.ms + told * 1000
            self.comes = self._soonest() if early else None

    def _check_rate(self, began: int) -> None:
        assert self.rate is not None
        count, per = self.rate[0], self.rate[1] * 1000
        if began:
            full = min(max(self.full, self.bench.now), self.bench.now + per)
            self.full = math.ceil(full + began * per / count)
        for at, first in enumerate(self.begun):
            most = count + (self.begun[-1] - first) * count / per
            assert len(self.begun) - at <= most + 1e-6, "no more than a burst and the rate"

    # -- invariants ---------------------------------------------------------------------------------------------------

    @invariant()
    def counted(self) -> None:
        """Check the server's count of running jobs after each step."""
        assert int(self.bench.hash(self.queue.stats).get("running", 0)) == len(self.leased)

    @invariant()
    def nobody_sleeps_in_vain(self) -> None:
        """Check that a sleeping worker was woken or checks soon enough if a job may start."""
        if any(channel == CHANNEL and text == self.queue.jobs for channel, text in self.bench.messages):
            self.asleep = False
        self.bench.messages.clear()
        if self.until is not None and self.until <= self.ms:
            self.asleep = False
        begins = any(
            job.place == "ready" or (job.place == "scheduled" and job.due <= self.ms)
            for job in self.jobs.values()
            if job.expires is None or job.expires > self.ms
        )
        if self.asleep and begins and self.room(1):
            assert self.rate is not None, "a job may begin, and a worker sleeps"
            assert self.until is not None, "a job may begin, and a worker does not know when"


class LimitedJobsMachine(LimitsMachine, JobMachine):
    """The rules under changing limits, with actions on single jobs."""

    @rule(level=st.integers(0, 2), limit=st.sampled_from([1, 800, 4000]), delay=st.sampled_from([0, 0, 1500]),
          absolute=st.booleans(), twice=st.booleans())  # fmt: skip
    def push_until(self, level: int, limit: int, delay: int, *, absolute: bool, twice: bool) -> None:
        if self._room_for(1):
            super().push_until(level, limit, delay, absolute=absolute, twice=twice)
            return
        new = NewJob(f"j{len(self.jobs):03}", record_header.head(level, DELIVERIES) + BODY, delay)
        _raised(QueueFull, lambda: self.bench.run(enqueue.push(self.queue, [new], expires_ms=limit), twice=twice))

    @precondition(lambda self: self.leased)
    @rule()
    def dies_with_a_cancelled_job(self) -> None:
        id = min(self.leased)
        session, _ = self.leased[id]
        assert self.bench.run(control.cancel(self.queue, id, "sim", WINDOW_MS)) == "running"
        self.jobs[id].asked = True
        self.recover(session, gone=True, twice=False)
