"""A plain Python model of ten priorities: which jobs each fetch leases, level by level."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import enqueue, leases, record_header
from lockwork.protocol.queue import job_control as control
from lockwork.protocol.queue import status as queue_status
from lockwork.protocol.queue.enqueue import NewJob
from lockwork.protocol.queue.leases import Leased, Outcome
from lockwork.protocol.queue.priority import digit
from lockwork.protocol.queue.record_header import JobLimits
from models.bench import CHANNEL, Bench

_SESSION = "host/1/a"
_WINDOW_MS = 3_600_000
_WORDS = (0, 5, 9)
_GROUPS = ["", "", "", "many", "one", "other"]
"""One job of the group `one` runs at a time; the others have no limits."""


@dataclass
class _PriorityJob:
    number: int
    group: str
    place: str
    due: int = 0
    order: tuple[int, int, str] = (0, 0, "")
    """Position among ready jobs of its group and number."""


class PrioritiesMachine(RuleBasedStateMachine):
    """Producers, a worker and a clock."""

    def __init__(self, bench: Bench) -> None:
        super().__init__()
        self.bench = bench
        self.queue = QueueKeys("sim", "q")
        self.jobs: dict[str, _PriorityJob] = {}
        self.leased: dict[str, Leased] = {}
        self.last: dict[int, str] = {}
        """The group of each number that had the last turn."""
        self.count = 0
        self.bench.run(leases.beat(self.queue, {_SESSION: True}, 10**9, 1.0))

    @property
    def ms(self) -> int:
        return self.bench.now // 1000

    def _next(self) -> int:
        self.count += 1
        return self.count

    def _at(self, *places: str) -> list[str]:
        return sorted(id for id, job in self.jobs.items() if job.place in places)

    @rule(
        number=st.integers(0, 9),
        groups=st.lists(st.sampled_from(_GROUPS), min_size=1, max_size=3),
        delay=st.sampled_from([0, 0, 0, 1500]),
        expires=st.sampled_from([None, None, 10**8]),
        twice=st.booleans(),
    )
    def push(self, number: int, groups: list[str], delay: int, expires: int | None, *, twice: bool) -> None:
        batch = []
        for group in groups:
            id = f"j{self._next():05}"
            limits = JobLimits(1 if group == "one" else 0)
            head = record_header.head(digit(number), 3, group=group, limits=limits)
            batch.append(NewJob(id, head + b'["work",[]]', delay))
        added = self.bench.run(enqueue.push(self.queue, batch, expires_ms=expires), twice=twice)
        assert added == (0 if twice else len(batch))
        for new, group in zip(batch, groups, strict=True):
            job = self.jobs[new.id] = _PriorityJob(number, group, "scheduled", self.ms + delay)
            # a word's job with a group is admitted by the next fetch
            if not delay and (number not in _WORDS or not group):
                self._line_up(new.id, job)

    def _line_up(self, id: str, job: _PriorityJob) -> None:
        job.place, job.order = "ready", (1, self._next(), id)

    @rule(want=st.integers(1, 6), twice=st.booleans(), channel=st.sampled_from(["", CHANNEL]))
    def reserve(self, want: int, channel: str, *, twice: bool) -> None:
        asked = leases.reserve(self.queue, _SESSION, want, f"q{self._next()}", channel)
        batch = self.bench.run(asked, twice=twice)
        for _, id in sorted((self.jobs[id].due, id) for id in self._at("scheduled")):
            if self.jobs[id].due <= self.ms:
                self._line_up(id, self.jobs[id])
        leased = [self.jobs[job.id] for job in batch.jobs]
        running = Counter(self.jobs[id].group for id in self.leased)
        room = want
        for number in range(10):
            room -= self._check_level(number, [job for job in leased if job.number == number], running, room)
        for job in batch.jobs:
            self.jobs[job.id].place = "running"
            self.leased[job.id] = job

    def _check_level(self, number: int, leased: list[_PriorityJob], running: Counter[str], room: int) -> int:
        """Check the leased jobs of one level; return their number."""
        lines: dict[str, list[_PriorityJob]] = {}
        for id in self._at("ready"):
            if self.jobs[id].number == number:
                lines.setdefault(self.jobs[id].group, []).append(self.jobs[id])
        if running["one"] and "one" in lines:
            del lines["one"]
        available = {group: 1 if group == "one" else len(line) for group, line in lines.items()}
        assert len(leased) == min(room, sum(available.values())), f"priority {number} in its turn"
        taken = Counter(job.group for job in leased)
        for group, count in taken.items():
            assert group in lines, "a group keeps its limit"
            first = sorted(lines[group], key=lambda job: job.order)[:count]
            assert all(job in leased for job in first), "first come, first served in a group"
        if number not in _WORDS and leased:
            if len(leased) == 1 and len(available) > 1:
                assert leased[0].group != self.last.get(number), "groups take turns"
            waiting = [taken[group] for group in available if taken[group] < available[group]]
            assert not waiting or max(taken.values()) - min(waiting) <= 1, "groups take turns"
            self.last[number] = self._last_turn(available, taken, number)
        running.update(taken)
        return len(leased)

    def _last_turn(self, available: dict[str, int], taken: Counter[str], number: int) -> str:
        """Return the group that had the last of these turns: groups take turns in the order of their names."""
        groups, last, left = sorted(available), self.last.get(number), taken.copy()
        while left.total():
            after = [group for group in groups if last is not None and group > last and left[group]]
            last = (after or [group for group in groups if left[group]])[0]
            left[last] -= 1
        assert last is not None
        return last

    @precondition(lambda self: self.leased)
    @rule(data=st.data(), kind=st.sampled_from("sssdrg"), twice=st.booleans())
    def settle(self, data: st.DataObject, kind: str, *, twice: bool) -> None:
        id = data.draw(st.sampled_from(sorted(self.leased)))
        ended = Outcome(id, self.leased[id].token, kind, b"{}", 1500 if kind == "r" else 0)  # type: ignore[arg-type]
        assert self.bench.run(leases.settle(self.queue, _SESSION, [ended], _WINDOW_MS), twice=twice) == [not twice]
        fence, job = self.leased.pop(id).fence, self.jobs[id]
        if kind in "sd":
            job.place = "ended"
        elif kind == "r":
            job.place, job.due = "scheduled", self.ms + 1500
        elif job.number in _WORDS and not job.group:
            job.place, job.order = "ready", (0, -self._next(), id)  # to the front of its list
        else:
            job.place, job.order = "ready", (0, fence, id)

    @precondition(lambda self: self._at("ready", "scheduled"))
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        id = data.draw(st.sampled_from(self._at("ready", "scheduled")))
        assert self.bench.run(control.cancel(self.queue, id, "sim", _WINDOW_MS)) == "cancelled"
        self.jobs[id].place = "ended"

    @rule(milliseconds=st.sampled_from([1, 700, 1500]))
    def wait(self, milliseconds: int) -> None:
        self.bench.now += milliseconds * 1000

    @rule()
    def compare(self) -> None:
        """Compare the counts of the queue."""
        status, _ = self.bench.run(queue_status.status(self.queue))
        came = sum(self.jobs[id].due <= self.ms for id in self._at("scheduled"))
        assert status.ready == len(self._at("ready")) + came
        assert status.scheduled == len(self._at("scheduled")) - came
        assert status.running == len(self.leased)
