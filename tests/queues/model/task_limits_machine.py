"""A plain Python model of the limits of tasks: which jobs may start, which wait, and when a task is paused."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import groupby

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import enqueue, leases, record_header, task_limits
from lockwork.protocol.queue import job_control as control
from lockwork.protocol.queue import status as queue_status
from lockwork.protocol.queue.enqueue import NewJob
from lockwork.protocol.queue.leases import Leased, Outcome
from lockwork.protocol.queue.priority import digit, is_numbered
from lockwork.protocol.queue.record_header import JobLimits
from lockwork.protocol.queue.task_limits import LimitedTask, TaskLimits
from models.bench import CHANNEL, SECOND, Bench

_WINDOW_MS = 3_600_000
_SESSION = "host/1/a"
_NONE = TaskLimits()
_LIMITS = (
    TaskLimits(at_once=1),
    TaskLimits(at_once=3),
    TaskLimits(jobs=2, per_ms=1000),
    TaskLimits(at_once=2, jobs=3, per_ms=1000),
    TaskLimits(failures=2, window_ms=3000, pause_ms=2000),
    TaskLimits(at_once=2, failures=2, window_ms=60_000, pause_ms=5000),
    _NONE,
)
_TASKS = ("a", "b", "c")
_ONE = "one"
"""The only group with a limit: it runs one job at a time."""


@dataclass
class _Task:
    """The limits of a task and their use."""

    limits: TaskLimits = _NONE
    running: set[str] = field(default_factory=set)
    uncounted: set[str] = field(default_factory=set)
    """Jobs that were leased while the task had no limits."""
    unused_at: float = 0
    paused: int = 0
    probe: str = ""
    failures: list[int] = field(default_factory=list)

    def room(self, now: int) -> tuple[float, int | None]:
        """Return how many jobs may start, and the time (ms) when time alone allows the next."""
        room = math.inf
        if self.paused:
            if self.probe:
                return 0, None
            if now // 1000 < self.paused:
                return 0, self.paused
            room = 1
        if self.limits.at_once:
            room = min(room, self.limits.at_once - len(self.running))
        if self.limits.jobs and room > 0:
            per = self.limits.per_ms * 1000
            unused = min(max(self.unused_at, now), now + per)
            free = math.floor((now + per - unused) * self.limits.jobs / per)
            if free < 1:
                return 0, math.ceil((unused + per / self.limits.jobs - per) / 1000)
            room = min(room, free)
        return max(0, room), None

    def start(self, job: str, now: int) -> None:
        self.running.add(job)
        if self.limits.jobs:
            per = self.limits.per_ms * 1000
            self.unused_at = math.ceil(min(max(self.unused_at, now), now + per) + per / self.limits.jobs)
        if self.paused:
            self.probe = job

    def end(self, job: str, result: str, now_ms: int) -> None:
        if job in self.uncounted:
            self.uncounted.remove(job)
            return
        self.running.remove(job)
        if self.paused and self.probe == job:
            self.probe = ""
            if result == "s":
                self.paused, self.failures = 0, []
            elif result == "f":
                self.paused = now_ms + self.limits.pause_ms
        elif not self.paused and result == "f" and self.limits.failures:
            self.failures = [at for at in self.failures if at > now_ms - self.limits.window_ms] + [now_ms]
            if len(self.failures) >= self.limits.failures:
                self.paused, self.failures = now_ms + self.limits.pause_ms, []


@dataclass
class _Job:
    task: str
    number: int
    """Priority from 0 to 9; the words are 0, 5 and 9."""
    group: str
    fresh: bool = True
    """True until its first delivery."""


class TaskLimitsMachine(RuleBasedStateMachine):
    """Jobs of three tasks and ten priorities, some in groups, one worker, and limits that change."""

    def __init__(self, bench: Bench) -> None:
        super().__init__()
        self.bench = bench
        self.queue = QueueKeys("sim", "q")
        self.tasks = {name: _Task() for name in _TASKS}
        self.waiting: dict[str, _Job] = {}
        """In the order of their enqueues."""
        self.leased: dict[str, tuple[_Job, Leased]] = {}
        self.numbers = 0
        self.asleep = False
        self.bench.hear(CHANNEL)
        self._join()

    def _join(self) -> None:
        self.bench.run(leases.beat(self.queue, {_SESSION: True}, 3_600_000, 1.0))

    @initialize(limits=st.sampled_from(_LIMITS[:-1]))
    def begin(self, limits: TaskLimits) -> None:
        self.declare("a", limits, twice=False)
        self.enqueue([("a", 5, "-")] * 4)

    @precondition(lambda self: self.numbers % 5 == 0)
    @rule(task=st.sampled_from("aaab"), limits=st.sampled_from(_LIMITS), twice=st.booleans())
    def declare_others(self, task: str, limits: TaskLimits, twice: bool) -> None:
        self.declare(task, limits, twice=twice)

    def declare(self, task: str, limits: TaskLimits, *, twice: bool) -> None:
        names = (task, f"old.{task}")
        self.bench.run(task_limits.declare(self.queue, {task: LimitedTask(limits, names)}), twice=twice)
        model = self.tasks[task]
        model.limits = limits
        if not limits.pause_ms:
            model.paused, model.probe, model.failures = 0, "", []
        self._check_wake_up()

    @rule(
        jobs=st.lists(
            st.tuples(
                st.sampled_from(["a", "a", "a", "old.a", "b", "c"]),
                st.sampled_from([0, 2, 5, 5, 6, 7, 9]),
                st.sampled_from(["-", "g", _ONE, _ONE]),
            ),
            min_size=1,
            max_size=6,
        )
    )
    def push(self, jobs: list[tuple[str, int, str]]) -> None:
        self.enqueue(jobs)

    def enqueue(self, jobs: list[tuple[str, int, str]]) -> None:
        new = []
        for task, number, group in jobs:
            self.numbers += 1
            id = f"j{self.numbers:04}"
            name, limits = "" if group == "-" else group, JobLimits(1 if group == _ONE else 0)
            head = record_header.head(digit(number), 1000, group=name, limits=limits)
            new.append(NewJob(id, head + b'["%b",[]]' % task.encode()))
            self.waiting[id] = _Job(task.removeprefix("old."), number, group)
        for _, some in groupby(new, key=lambda job: is_numbered(job.record)):
            self.bench.run(enqueue.push(self.queue, list(some)))
        self._check_wake_up()

    @property
    def _one_runs(self) -> bool:
        return any(job.group == _ONE for job, _ in self.leased.values())

    @rule(want=st.sampled_from([1, 2, 100]))
    def fetch(self, want: int) -> None:
        self.lease(want, lost=False)

    @rule(want=st.sampled_from([1, 2, 3, 100, 100]), lost=st.booleans())
    def reserve(self, want: int, lost: bool) -> None:
        self.lease(want, lost=lost)

    def lease(self, want: int, *, lost: bool) -> None:
        self.numbers += 1
        request = f"r{self.numbers}"
        batch = self.bench.run(leases.reserve(self.queue, _SESSION, want, request, CHANNEL))
        now = self.bench.now
        if lost and batch.jobs:
            again = self.bench.run(leases.reserve(self.queue, _SESSION, want, request, CHANNEL, again=True))
            assert sorted(job.id for job in again.jobs) == sorted(job.id for job in batch.jobs), "leased once"
        before = {name: task.room(now) for name, task in self.tasks.items()}
        waiting = {name: sum(job.task == name for job in self.waiting.values()) for name in _TASKS}
        others = {name: sum(job.task == name and job.group != _ONE for job in self.waiting.values()) for name in _TASKS}
        least = sum(min(others[name], before[name][0]) for name in _TASKS)
        # one more job of the group may start, if its task has room for it
        more = not self._one_runs and any(min(waiting[name], before[name][0]) > others[name] for name in _TASKS)
        assert min(want, least) <= len(batch.jobs) <= min(want, least + more), "as many start as the limits allow"
        if not self._one_runs and not batch.jobs:
            assert all(min(waiting[name], before[name][0]) < 1 for name in _TASKS), "a job of the group starts"
        ones = [leased for leased in batch.jobs if self.waiting[leased.id].group == _ONE]
        assert len(ones) <= (0 if self._one_runs else 1), "a group keeps its limit"
        for leased in batch.jobs:
            job = self.waiting[leased.id]
            if job.fresh:
                earlier = [
                    id
                    for id, other in self.waiting.items()
                    if id < leased.id and other == job and id not in {each.id for each in batch.jobs}
                ]
                assert not earlier, "jobs of a task and level start in their order"
        for leased in batch.jobs:
            job = self.waiting.pop(leased.id)
            job.fresh = False
            self.leased[leased.id] = job, leased
            task = self.tasks[job.task]
            assert task.room(now)[0] >= 1, f"task {job.task} may not start another job"
            if self._counts(job.task):
                task.start(leased.id, now)
            else:
                task.uncounted.add(leased.id)
        lowest = max((self.leased[leased.id][0].number for leased in batch.jobs), default=0)
        for job in self.waiting.values():
            assert job.number >= lowest or not self._may_start(job), "priorities are strict"
        self.asleep = not batch.jobs
        if self.asleep:
            may_wait = waiting if not self._one_runs else others  # the group's next job is woken by the end of its last
            times = [at for name, (_, at) in before.items() if at is not None and may_wait[name]]
            if times:
                assert batch.next_due is not None
                assert batch.next_due <= max(0, min(times) * 1000 - now) / SECOND + 0.002, "it looks again in time"
            self.bench.messages.clear()

    def _counts(self, task: str) -> bool:
        return f" {task}\n" in self.bench.hash(self.queue.stats).get("limited", "")

    @precondition(lambda self: self.leased)
    @rule(data=st.data(), kind=st.sampled_from("sssrrrrrdgnz"), twice=st.booleans())
    def settle(self, data: st.DataObject, kind: str, twice: bool) -> None:
        self.end(data.draw(st.sampled_from(sorted(self.leased))), kind, twice=twice)

    @precondition(lambda self: any(task.paused and not task.probe for task in self.tasks.values()))
    @rule(kind=st.sampled_from("ssr"))
    def probe(self, kind: str) -> None:
        """End the pauses, and the probes after them."""
        self.bench.now = max(self.bench.now, max(task.paused for task in self.tasks.values()) * 1000)
        self.asleep = False
        self.lease(100, lost=False)
        for id in [task.probe for task in self.tasks.values() if task.probe]:
            self.end(id, kind, twice=False)
        self.compare()

    def end(self, id: str, kind: str, *, twice: bool) -> None:
        job, leased = self.leased.pop(id)
        outcome: Outcome = Outcome(id, leased.token, kind, b"{}" if kind in "dr" else b"", 0, job.task)  # type: ignore[arg-type]
        assert self.bench.run(leases.settle(self.queue, _SESSION, [outcome], _WINDOW_MS)) == [True]
        if twice:
            assert self.bench.run(leases.settle(self.queue, _SESSION, [outcome], _WINDOW_MS)) == [False]
        result = "s" if kind == "s" else "f" if kind in "dr" else ""
        self.tasks[job.task].end(id, result, self.bench.now // 1000)
        if kind not in "sd":
            self.waiting[id] = job
        self._check_wake_up()

    @precondition(lambda self: self.leased)
    @rule(died=st.booleans())
    def session_ends(self, died: bool) -> None:
        died = died and len(self.leased) == 1  # several would become suspects
        self.bench.run(leases.recover(self.queue, _SESSION, _WINDOW_MS, gone=True, counted=died))
        for id, (job, leased) in list(self.leased.items()):
            self.tasks[job.task].end(id, "f" if died else "", self.bench.now // 1000)
            if not died or leased.crashes < 2:
                self.waiting[id] = job
        self.leased.clear()
        self._check_wake_up()
        self._join()

    @precondition(lambda self: self.waiting)
    @rule(data=st.data(), twice=st.booleans())
    def cancel(self, data: st.DataObject, twice: bool) -> None:
        id = data.draw(st.sampled_from(sorted(self.waiting)))
        assert self.bench.run(control.cancel(self.queue, id, "sim"), twice=twice) == "cancelled"
        del self.waiting[id]

    @precondition(lambda self: any(task.paused for task in self.tasks.values()) or self.numbers % 7 == 0)
    @rule(task=st.sampled_from("aab"))
    def resume(self, task: str) -> None:
        model = self.tasks[task]
        assert self.bench.run(task_limits.resume(self.queue, task)) == (model.paused > 0)
        if model.paused:
            model.paused, model.probe, model.failures = 0, "", []
        self._check_wake_up()

    @rule(milliseconds=st.sampled_from([1, 150, 400, 1000, 2000, 5000]))
    def wait(self, milliseconds: int) -> None:
        self.bench.now += milliseconds * 1000
        self.asleep = False  # its timer

    def _may_start(self, job: _Job) -> bool:
        return self.tasks[job.task].room(self.bench.now)[0] >= 1 and not (job.group == _ONE and self._one_runs)

    def _check_wake_up(self) -> None:
        if self.asleep and any(map(self._may_start, self.waiting.values())):
            assert self.bench.messages, "a sleeping worker is woken for a job that may start"
            self.asleep = False

    @precondition(lambda self: self.numbers % 3 == 0)
    @rule()
    def look(self) -> None:
        self.compare()

    def compare(self) -> None:
        """Compare the counts and states."""
        status, _ = self.bench.run(queue_status.status(self.queue))
        assert (status.ready, status.running) == (len(self.waiting), len(self.leased))
        for state in self.bench.run(task_limits.states(self.queue)):
            model = self.tasks[state.task]
            assert state.limits == model.limits
            assert state.running == len(model.running)
            assert (state.state == "open") == (not model.paused)
            assert state.waiting <= sum(job.task == state.task for job in self.waiting.values())
