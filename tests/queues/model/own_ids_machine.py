"""A plain Python model of the callers' own ids: which job has an id, and when the id is free again."""

from __future__ import annotations

from dataclasses import dataclass

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from lockwork.protocol.dead import dead
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import browse, leases, record_header
from lockwork.protocol.queue import job_control as control
from lockwork.protocol.queue.enqueue import NewJob
from lockwork.protocol.queue.leases import Leased, Outcome
from lockwork.protocol.queue.own_ids import push_own
from models.bench import CHANNEL, Bench

_IDS = [":a", ":b", ":c", ":d"]
_OTHER = ":z"
_SESSION = "host/1/a"
_WINDOW_MS = 3_600_000
_VOID = "-"
"""Prefix of an id in a ready list if its job has left this position."""


@dataclass
class _OwnJob:
    """One job with an id; later jobs may have the same id."""

    record: bytes
    level: int
    place: str
    due: int = 0
    expires: int | None = None
    tries: int = 0


class OwnIdsMachine(RuleBasedStateMachine):
    """Producers, a worker, an operator and a clock."""

    def __init__(self, bench: Bench) -> None:
        super().__init__()
        self.bench = bench
        self.queue = QueueKeys("sim", "q")
        self.jobs: dict[str, _OwnJob] = {}
        """Jobs that wait, run or are dead."""
        self.ready: tuple[list[str], ...] = ([], [], [])
        self.newer: dict[str, str] = {}
        self.older: dict[str, str] = {}
        """Letters of outcomes in both generations of results."""
        self.turned: int | None = None
        self.long: dict[str, int] = {}
        """End of the time (ms) of results with a separate time."""
        self.watched: set[str] = set()
        self.leased: dict[str, Leased] = {}
        self.old: list[Leased] = []
        self.requests = 0
        self.bench.run(leases.beat(self.queue, {_SESSION: True}, 10**9, 1.0))

    @property
    def ms(self) -> int:
        return self.bench.now // 1000

    def _request(self) -> str:
        self.requests += 1
        return f"q{self.requests}"

    def _at(self, *places: str) -> list[str]:
        return sorted(id for id, job in self.jobs.items() if job.place in places)

    def _outcome(self, id: str) -> str:
        return "s" if self.long.get(id, 0) > self.ms else self.newer.get(id) or self.older.get(id) or ""

    def _in_use(self, id: str) -> bool:
        return id in self.jobs or self._outcome(id) in ("s", "c", "x")

    # -- producers ----------------------------------------------------------------------------------------------------

    @rule(
        calls=st.lists(
            st.tuples(st.sampled_from(_IDS), st.integers(0, 2), st.sampled_from([0, 0, 1500])), min_size=1, max_size=3
        ),
        expires=st.sampled_from([None, None, 1200]),
        twice=st.booleans(),
    )
    def push(self, calls: list[tuple[str, int, int]], expires: int | None, *, twice: bool) -> None:
        self._push(calls, expires, twice=twice)

    def _push(self, calls: list[tuple[str, int, int]], expires: int | None, *, twice: bool) -> None:
        batch = [
            NewJob(id, record_header.head(level, 3) + f'["work",["{self._request()}"]]'.encode(), delay)
            for id, level, delay in calls
        ]
        found = self.bench.run(push_own(self.queue, batch, expires), twice=twice)
        assert [each.id for each in found] == [id for id, _, _ in calls]
        expected = [self._arrive(new, expires) for new in batch]
        assert [each.arrival for each in found] == expected
        self.compare()

    def _arrive(self, new: NewJob, expires: int | None) -> str:
        if self._in_use(new.id):
            return "kept"
        for outcomes in (self.newer, self.older, self.long):
            outcomes.pop(new.id, None)
        for line in self.ready:
            if _VOID + new.id in line:
                line.remove(_VOID + new.id)
        ends = None if expires is None else self.ms + expires
        job = self.jobs[new.id] = _OwnJob(new.record, new.record[0] - 48, "scheduled", self.ms + new.delay_ms, ends)
        if not new.delay_ms:
            self._line_up(new.id, job)
        return "new"

    def _line_up(self, id: str, job: _OwnJob) -> None:
        job.place = "ready"
        line = self.ready[job.level]
        if _VOID + id in line:
            line[line.index(_VOID + id)] = id
        else:
            line.append(id)

    @rule(id=st.sampled_from(_IDS))
    def watch(self, id: str) -> None:
        """Wait for the end of a job."""
        found = self.bench.run(leases.job_state(self.queue, id, CHANNEL))
        # the outcome is read first: it must not be that of an earlier job
        if id in self.jobs and self.jobs[id].place != "dead" and found.state != "overdue":
            assert found.state in ("active", "scheduled")
            self.watched.add(id)

    # -- workers ------------------------------------------------------------------------------------------------------

    @rule(want=st.integers(1, 4), twice=st.booleans())
    def reserve(self, want: int, *, twice: bool) -> None:
        batch = self.bench.run(leases.reserve(self.queue, _SESSION, want, self._request(), ""), twice=twice)
        for id in self._at("ready", "scheduled"):
            ends = self.jobs[id].expires
            if ends is not None and ends <= self.ms:
                self._leave_waiting(id, "x")
        for id in [id for _, id in sorted((self.jobs[id].due, id) for id in self._at("scheduled"))]:
            if self.jobs[id].due <= self.ms:
                self._line_up(id, self.jobs[id])
        expected: list[str] = []
        for line in self.ready:
            while line and len(expected) < want:
                id = line.pop(0)
                if not id.startswith(_VOID):
                    expected.append(id)
        assert sorted(leased.id for leased in batch.jobs) == sorted(expected), "first come, by priority"
        for leased in batch.jobs:
            job = self.jobs[leased.id]
            assert leased.record == job.record, "it is the job that was new"
            assert leased.attempt == job.tries + 1
            job.place, job.expires = "running", None
            self.leased[leased.id] = leased
            self.old.append(leased)

    @precondition(lambda self: self.leased)
    @rule(
        data=st.data(),
        kind=st.sampled_from("sssrddc"),
        keep=st.sampled_from([0, 0, 2000, 40_000_000]),
        twice=st.booleans(),
    )
    def settle(self, data: st.DataObject, kind: str, keep: int, *, twice: bool) -> None:
        id = data.draw(st.sampled_from(sorted(self.leased)))
        delay = keep if kind == "s" else 1500 if kind == "r" else 0
        ended = Outcome(id, self.leased[id].token, kind, b"{}", delay)  # type: ignore[arg-type]
        assert self.bench.run(leases.settle(self.queue, _SESSION, [ended], _WINDOW_MS), twice=twice) == [not twice]
        del self.leased[id]
        job = self.jobs[id]
        job.tries += 1
        if kind == "r":
            job.place, job.due = "scheduled", self.ms + delay
            return
        self._store(id, "f" if kind == "d" else kind)
        if kind == "d":
            job.place = "dead"
            return
        del self.jobs[id]
        if keep and kind == "s":
            self.long[id] = self.ms + keep

    @precondition(lambda self: self.old)
    @rule(data=st.data())
    def settle_again(self, data: st.DataObject) -> None:
        """An ended delivery settles no later job with its id."""
        leased = data.draw(st.sampled_from(self.old[-6:]))
        if self.leased.get(leased.id) != leased:
            ended = Outcome(leased.id, leased.token, "s", b"0", 0)
            assert self.bench.run(leases.settle(self.queue, _SESSION, [ended], _WINDOW_MS)) == [False]
            self.compare()

    # -- operators ----------------------------------------------------------------------------------------------------

    @precondition(lambda self: self._at("ready", "scheduled"))
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        id = data.draw(st.sampled_from(self._at("ready", "scheduled")))
        assert self.bench.run(control.cancel(self.queue, id, "sim", _WINDOW_MS)) == "cancelled"
        self._leave_waiting(id, "c")

    @rule(id=st.sampled_from(_IDS), enqueues=st.booleans(), level=st.integers(0, 2))
    def delete(self, id: str, level: int, *, enqueues: bool) -> None:
        used, place = self._in_use(id), self.jobs[id].place if id in self.jobs else ""
        found = self.bench.run(control.delete(self.queue, id, _WINDOW_MS))
        if place == "running":
            assert found == "running"
            return
        if used:
            assert found == "deleted"
        if place in ("ready", "scheduled"):
            self._leave_waiting(id, "f" if id in self.watched else "")
        elif place == "dead":
            del self.jobs[id]
        else:
            for outcomes in (self.newer, self.older, self.long):
                outcomes.pop(id, None)
        assert not self._in_use(id)
        if enqueues:
            self._push([(id, level, 0)], None, twice=False)

    @precondition(lambda self: self._at("dead"))
    @rule(data=st.data(), forgets=st.booleans())
    def handle_dead(self, data: st.DataObject, *, forgets: bool) -> None:
        """Delete a dead job, or run it again."""
        id = data.draw(st.sampled_from(self._at("dead")))
        if forgets:
            assert self.bench.run(dead.delete_one(self.queue, id, self._request()))
            del self.jobs[id]
            return
        assert self.bench.run(control.revive(self.queue, id)) == "revived"
        self._revived(id)

    @precondition(lambda self: any(self._outcome(id) in ("c", "x") and id not in self.jobs for id in _IDS))
    @rule(data=st.data())
    def revive(self, data: st.DataObject) -> None:
        ended = [id for id in _IDS if self._outcome(id) in ("c", "x") and id not in self.jobs]
        id = data.draw(st.sampled_from(ended))
        assert self.bench.run(control.revive(self.queue, id)) == "revived"
        record = self.bench.hash(self.queue.jobs)[id].encode()
        self.jobs[id] = _OwnJob(record, record[0] - 48, "ready")
        self._revived(id)

    def _revived(self, id: str) -> None:
        self.jobs[id].tries = 0
        for outcomes in (self.newer, self.older, self.long):
            outcomes.pop(id, None)
        self._line_up(id, self.jobs[id])

    @rule(rarely=st.integers(0, 3))
    def clear(self, rarely: int) -> None:
        if not rarely:
            waits = self._at("ready", "scheduled")
            assert self.bench.run(browse.clear(self.queue, self._request(), _WINDOW_MS)) == len(waits)
            for id in waits:
                self._leave_waiting(id, "f" if id in self.watched else "")
            for line in self.ready:
                line.clear()

    @rule(milliseconds=st.sampled_from([1, 700, 1500, 4_000_000, 4_000_000]))
    def wait(self, milliseconds: int) -> None:
        self.bench.now += milliseconds * 1000

    @rule(times=st.sampled_from([1, 1, 2, 11]))
    def rotate(self, times: int) -> None:
        """Let the outcomes of another job replace those of all jobs, except results with their own time."""
        for _ in range(times):
            self._wait_long()
            self._push([(_OTHER, 0, 0)], None, twice=False)
            assert self.bench.run(control.cancel(self.queue, _OTHER, "sim", _WINDOW_MS)) == "cancelled"
            self._leave_waiting(_OTHER, "c")
            assert self.bench.run(control.delete(self.queue, _OTHER, _WINDOW_MS)) == "deleted"
            self.newer.pop(_OTHER)

    def _wait_long(self) -> None:
        self.bench.now += 4_000_000_000

    # -- the model ----------------------------------------------------------------------------------------------------

    def _leave_waiting(self, id: str, letter: str) -> None:
        for line in self.ready:
            if id in line:
                line[line.index(id)] = _VOID + id
        del self.jobs[id]
        if letter:
            self._store(id, letter)

    def _store(self, id: str, letter: str) -> None:
        self.watched.discard(id)
        if self.turned is None or self.bench.now - self.turned > _WINDOW_MS * 1000:
            self.newer, self.older, self.turned = {}, self.newer, self.bench.now
        self.newer[id] = letter

    @rule()
    def compare(self) -> None:
        """Check that each id has one job in one place, and that nothing of an earlier job remains."""
        assert self.bench.fields(self.queue.jobs) == set(self.jobs)
        void = self.bench.members(self.queue.void)
        for level, line in enumerate(self.ready):
            entries = self.bench.list(self.queue.ready[level])
            assert entries == [id.removeprefix(_VOID) for id in line]
            assert {id for id in entries if _VOID + id in line} <= void
        waits = {id for id, job in self.jobs.items() if job.place != "dead"}
        assert not self.bench.fields(self.queue.history) & waits, "history has ended jobs only"
        for id in _IDS:
            found = self.bench.run(leases.job_state(self.queue, id))
            expected = "dead" if id in self.jobs else self._outcome(id) and "ended"
            if id in waits:
                assert found.state in ("active", "scheduled", "overdue")
            elif id not in self.jobs:
                assert found.state == (expected or "unknown")
