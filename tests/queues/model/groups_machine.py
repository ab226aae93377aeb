"""A plain Python model of jobs with a key or a group: runnable jobs, their order, and the stored counters."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import ages, enqueue, leases, record_header
from lockwork.protocol.queue import status as queue_status
from lockwork.protocol.queue.enqueue import NewJob
from lockwork.protocol.queue.leases import Leased, Outcome
from lockwork.protocol.queue.record_header import MAX_CRASHES, JobLimits
from models.bench import Bench

_DELIVERIES = 3
WINDOW_MS = 3_600_000
SESSION = "host/1/a"
_LIMITS = {"free": JobLimits(), "narrow": JobLimits(2), "one": JobLimits(1), "slow": JobLimits(0, 2, 1000)}
_IN_LINE = ("ready", "waits for its key")
_FIRST = -(10**19)
"""A stamp that sorts before all others even after a fence and a job number are added."""
_RATE_GRAIN = 2000
"""Microseconds. The server checks a group that waits for its rate at whole milliseconds only."""


@dataclass
class _Job:
    level: int
    key: str
    group: str
    place: str = "scheduled"
    due: int = 0
    tries: int = 0
    crashes: int = 0
    stamp: int = 0
    """Position in the order of ready jobs; jobs with equal stamps may have any order."""


@dataclass
class _Rate:
    """The generic cell rate algorithm; `expected` is the time (us) when the next cell is expected."""

    limits: JobLimits
    expected: float = 0

    def allowed(self, now: int, most: int) -> int:
        """Return how many of at most `most` cells may pass now."""
        if not self.limits.jobs:
            return most
        each, per = self.limits.per_ms * 1000 / self.limits.jobs, self.limits.per_ms * 1000
        at, count = max(self.expected, now), 0
        while count < most and at + each - now <= per:
            at, count = at + each, count + 1
        return count

    def go(self, now: int, count: int) -> None:
        if self.limits.jobs:
            self.expected = max(self.expected, now) + count * self.limits.per_ms * 1000 / self.limits.jobs


@dataclass
class _Eligible:
    """Jobs of one level that may be leased, and the least and most number of jobs of each group."""

    plain: list[str] = field(default_factory=list)
    groups: dict[str, list[str]] = field(default_factory=dict)
    least: dict[str, int] = field(default_factory=dict)
    most: dict[str, int] = field(default_factory=dict)


class GroupsMachine(RuleBasedStateMachine):
    """Producers, workers and a clock."""

    def __init__(self, bench: Bench) -> None:
        super().__init__()
        self.bench = bench
        self.queue = QueueKeys("sim", "q")
        self.jobs: dict[str, _Job] = {}
        self.holders: dict[str, str] = {}
        self.leased: dict[str, Leased] = {}
        self.rates = {group: _Rate(limits) for group, limits in {**_LIMITS, "": JobLimits()}.items()}
        self.asked: set[str] = set()
        """Running jobs with a cancellation request."""
        self.stamps = 0
        self.requests = 0
        self.join()

    def join(self) -> None:
        self.bench.run(leases.beat(self.queue, {SESSION: True}, 10**9, 1.0))

    @property
    def ms(self) -> int:
        return self.bench.now // 1000

    def _at(self, place: str) -> list[str]:
        found = [(job.stamp, id) for id, job in self.jobs.items() if job.place == place]
        return [id for _, id in sorted(found)]

    def _running(self) -> Counter[str]:
        return Counter(job.group for id in self.leased if (job := self.jobs[id]).key or job.group)

    def _line_up(self, id: str, stamp: int | None = None) -> None:
        self.stamps += 1
        self.jobs[id].place = "ready"
        self.jobs[id].stamp = self.stamps if stamp is None else stamp

    def _back(self, id: str, fence: int) -> None:
        """Put back a job that a worker returns: before jobs that were never leased, sorted by lease and then by id."""
        self._line_up(id, _FIRST + fence * 1000 + int(id[1:]))

    @rule(
        new=st.lists(
            st.tuples(
                st.integers(0, 2),
                st.sampled_from(["", "", "a", "b"]),
                st.sampled_from(["", *_LIMITS]),
                st.sampled_from([0, 0, 0, 1500]),
            ),
            min_size=1,
            max_size=4,
        ),
        twice=st.booleans(),
    )
    def push(self, new: list[tuple[int, str, str, int]], twice: bool) -> None:
        batch = []
        for level, key, group, delay in new:
            id = f"j{len(self.jobs):03}"
            head = record_header.head(level, _DELIVERIES, key, group, _LIMITS.get(group), hidden=level == 0)
            batch.append(NewJob(id, head + b"body", delay))
            self.jobs[id] = _Job(level, key, group)
            if not (key or group or delay):
                self._line_up(id)
        added = self.bench.run(enqueue.push(self.queue, batch), twice=twice)
        assert added == (0 if twice else len(batch))
        for job in batch:
            self.jobs[job.id].due = self.ms + job.delay_ms

    def _admit(self) -> None:
        ripe = sorted((self.jobs[id].due, id) for id in self._at("scheduled") if self.jobs[id].due <= self.ms)
        for _, id in ripe:
            key = self.jobs[id].key
            if key and self.holders.setdefault(key, id) != id:
                self._line_up(id)
                self.jobs[id].place = "waits for its key"
            else:
                self._line_up(id)

    def _eligible(self, level: int, room: Counter[str]) -> _Eligible:
        found = _Eligible()
        for id in self._at("ready"):
            job = self.jobs[id]
            if job.level == level and (job.group or job.key):
                found.groups.setdefault(job.group, []).append(id)
            elif job.level == level:
                found.plain.append(id)
        for group, line in found.groups.items():
            rate, may = self.rates[group], min(len(line), room[group])
            found.least[group] = rate.allowed(self.bench.now - _RATE_GRAIN, may)
            found.most[group] = rate.allowed(self.bench.now, may)
        return found

    @rule(want=st.integers(1, 6), twice=st.booleans())
    def reserve(self, want: int, twice: bool) -> None:
        """Lease jobs: highest level first, each list in order, groups round-robin.

        Checks that no runnable job is left if the server leases fewer than `want` jobs.
        """
        self.requests += 1
        asked = leases.reserve(self.queue, SESSION, want, f"q{self.requests}", "")
        batch = self.bench.run(asked, twice=twice)
        self._admit()
        got = [job.id for job in batch.jobs]
        assert len(set(got)) == len(got)
        left, room = want, self._room()
        for level in range(3):
            mine = [id for id in got if self.jobs[id].level == level]
            found = self._eligible(level, room)
            least = len(found.plain) + sum(found.least.values())
            most = len(found.plain) + sum(found.most.values())
            assert min(left, least) <= len(mine) <= min(left, most), (
                f"level {level}: {mine} of {found}, room for {left}"
            )
            self._check_order(mine, found)
            for id in mine:
                group = self.jobs[id].group
                room[group] -= 1
                self.rates[group].go(self.bench.now, 1)
            left -= len(mine)
        for job in batch.jobs:
            self._begin(job)

    def _room(self) -> Counter[str]:
        running = self._running()
        limits = {group: limits.at_once or 10**6 for group, limits in {**_LIMITS, "": JobLimits()}.items()}
        return Counter({group: most - running[group] for group, most in limits.items()})

    def _begin(self, job: Leased) -> None:
        known = self.jobs[job.id]
        assert known.place == "ready"
        assert not known.key or self.holders[known.key] == job.id, "one at a time per key"
        assert (job.attempt, job.crashes) == (known.tries + 1, known.crashes)
        known.place = "running"
        self.leased[job.id] = job

    def _check_order(self, mine: list[str], found: _Eligible) -> None:
        taken: dict[str, int] = {}
        for group, line in [("", found.plain), *found.groups.items()]:
            of_line = [id for id in line if id in mine]
            rest = [self.jobs[id].stamp for id in line if id not in mine]
            assert not rest or all(self.jobs[id].stamp <= min(rest) for id in of_line), f"in order: {of_line} of {line}"
            if line is not found.plain:
                taken[group] = len(of_line)
        hungry = [count for group, count in taken.items() if count < found.least[group]]
        assert not hungry or max(taken.values()) <= min(hungry) + 1, f"by turns: {taken} of {found}"

    @precondition(lambda self: self.leased)
    @rule(data=st.data(), kind=st.sampled_from("ssrdg"), delay=st.sampled_from([0, 1500]), twice=st.booleans())
    def settle(self, data: st.DataObject, kind: str, delay: int, twice: bool) -> None:
        id = data.draw(st.sampled_from(sorted(self.leased)))
        ended = Outcome(id, self.leased[id].token, kind, b"value", delay)  # type: ignore[arg-type]
        settled = self.bench.run(leases.settle(self.queue, SESSION, [ended], WINDOW_MS), twice=twice)
        assert settled == [not twice]
        fence = self.leased.pop(id).fence
        job = self.jobs[id]
        if id in self.asked:
            self.asked.discard(id)
            kind = "s" if kind == "s" else "c"
        job.tries += kind in "srd"
        if kind in "sdc":
            self.end(id, {"s": "succeeded", "d": "dead", "c": "cancelled"}[kind])
        elif kind == "r":
            job.place, job.due = "scheduled", self.ms + delay
        elif job.key or job.group:
            self._back(id, fence)
        else:
            self._line_up(id, -self.stamps)

    def end(self, id: str, place: str) -> None:
        job = self.jobs[id]
        job.place = place
        if not job.key:
            return
        del self.holders[job.key]
        for waiting in self._at("waits for its key"):
            if self.jobs[waiting].key == job.key:
                self.holders[job.key] = waiting
                self._line_up(waiting, self.jobs[waiting].stamp)
                return

    @rule()
    def recover(self) -> None:
        """Recover the session: counted after a crash with at most one job, uncounted after a stop with several."""
        died = len(self.leased) <= 1
        moved = self.bench.run(leases.recover(self.queue, SESSION, WINDOW_MS, gone=True, counted=died))
        held, self.leased = self.leased, {}
        self.stamps += 1
        front = -self.stamps
        for id, leased in held.items():
            job = self.jobs[id]
            if id in self.asked:
                self.asked.discard(id)
                self.end(id, "cancelled")
                continue
            job.tries += died
            job.crashes += died
            if job.crashes >= MAX_CRASHES:
                self.end(id, "dead")
                continue
            moved -= 1
            if job.key or job.group:
                self._back(id, leased.fence)
            else:
                self._line_up(id, front)
        assert moved == 0
        self.join()

    @rule(milliseconds=st.sampled_from([1, 300, 1500, 6000]))
    def wait(self, milliseconds: int) -> None:
        self.bench.now += milliseconds * 1000

    @rule()
    def count(self) -> None:
        """Check the counters, the holder of each key, and the number of running jobs of each group."""
        status, _ = self.bench.run(queue_status.status(self.queue))
        places = Counter(job.place for job in self.jobs.values())
        found = (status.ready, status.scheduled, status.running, status.dead)
        came = sum(self.jobs[id].due <= self.ms for id in self._at("scheduled"))
        ready = places["ready"] + places["waits for its key"] + came
        assert found == (ready, places["scheduled"] - came, places["running"], places["dead"])
        self._check_age()
        books: dict[str, str] = self.bench.hash(self.queue.groups)
        by_kind: dict[str, dict[str, str]] = defaultdict(dict)
        for name, value in books.items():
            by_kind[name[0]][name[2:]] = value
        assert by_kind["h"] == self.holders
        running = {group: str(count) for group, count in self._running().items()}
        assert by_kind["n"] == running, "jobs that run, by group"
        alive = {job.group for job in self.jobs.values() if job.place in ("ready", "running") and job.group}
        waiting = {id for id, job in self.jobs.items() if (job.key or job.group) and job.place in _IN_LINE}
        assert by_kind["@"].keys() == waiting
        assert by_kind["l"].keys() == alive, "limits are kept as long as the group has jobs"

    def _check_age(self) -> None:
        """Check the age of the oldest job with a key or a group. A returned job may count from its lease."""
        age = self.bench.run(ages.ready_age(self.queue)).seconds * 1000
        special = [job for job in self.jobs.values() if (job.key or job.group) and job.place in _IN_LINE]
        waiting = [self.ms - job.due for job in special if job.stamp > 0]
        assert age >= max(waiting, default=0) - 1
        plain = any(self.jobs[id].due <= self.ms for id in self._at("scheduled"))
        if len(waiting) == len(special) and not plain:
            assert age <= max(waiting, default=0) + 1


class ManyGroupsMachine(GroupsMachine):
    """Builds that check only one throttled group in a call, with many such groups."""

    @rule(level=st.integers(0, 2), want=st.integers(1, 6))
    def crowd(self, level: int, want: int) -> None:
        """Push throttled groups in front of a group without limits."""
        for _ in range(2):
            names = ("one", "narrow", "slow", "narrow", "slow", "free")
            self.push([(level, "", group, 0) for group in names], twice=False)
            self.reserve(want, twice=False)

    @rule(want=st.integers(1, 6), twice=st.booleans())
    def reserve(self, want: int, twice: bool) -> None:
        """Ask until a worker may sleep, and check that no runnable job is left then."""
        for _ in range(50):
            self.requests += 1
            asked = leases.reserve(self.queue, SESSION, want, f"q{self.requests}", "")
            batch = self.bench.run(asked, twice=twice)
            self._admit()
            for job in batch.jobs:
                self._begin(job)
                self.rates[self.jobs[job.id].group].go(self.bench.now, 1)
            want -= len(batch.jobs)
            if not want:
                return
            if not batch.jobs and batch.next_due != 0:
                break
        else:
            raise AssertionError("it asks again and again, and nothing may run")
        for level in range(3):
            found = self._eligible(level, self._room())
            assert not found.plain, "a job may run, and a worker sleeps"
            assert not any(found.least.values()), "a job of a group may run, and a worker sleeps"
