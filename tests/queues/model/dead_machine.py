"""A plain Python model of the dead set: its members, their order, and retries and deletions by operators."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
from hypothesis.stateful import precondition, rule

from lockwork.protocol.dead import dead
from lockwork.protocol.dead.dead import Bounds, DeadJob, Filter
from lockwork.protocol.queue import browse, leases
from lockwork.protocol.queue.leases import Outcome
from models.bench import Bench
from queues.model.queue_machine import PLACES, SESSIONS, ModelJob, QueueMachine

_VALUES = (
    b'{"type":"A","message":"one","traceback":"its lines"}',
    b'{"type":"B","message":"two"}',
    b"no JSON",
)
_READ = {
    _VALUES[0]: ("A", "one"),
    _VALUES[1]: ("B", "two"),
    _VALUES[2]: ("", "no JSON"),
    b"WorkerDied": ("WorkerDied",),
}
_FILTERS = (
    Filter(),
    Filter(error="A"),
    Filter(text="JSON"),
    Filter(error="B", text="B: tw"),
    Filter(least_age=500),
    Filter(most_age=1500),
    Filter(error="A", least_age=1),
    Filter(task="work"),
    Filter(task="play"),
)
_WINDOW_MS = 3_600_000


class DeadMachine(QueueMachine):
    """A queue with operators, and jobs that die often."""

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self.counts |= dict.fromkeys(["revived", "forgotten", "cleared"], 0)
        self.operations = 0

    def value(self, id: str) -> bytes:
        return _VALUES[int(id[1:]) % 3]

    # -- the model --------------------------------------------------------------------------------------------------

    def _dead(self) -> list[tuple[int, str]]:
        return sorted((job.died, id) for id, job in self.jobs.items() if job.place == "dead")

    def _matching(self, wanted: Filter, now: int) -> list[str]:
        return [id for died, id in self._dead() if self._matches(wanted, self.jobs[id], now - died)]

    @staticmethod
    def _matches(wanted: Filter, job: ModelJob, age: int) -> bool:
        kind, *message = _READ[job.error]
        return (
            wanted.task in (None, "work")
            and wanted.error in (None, kind)
            and (wanted.text is None or wanted.text in f"{kind}: {message[0] if message else ''}")
            and (wanted.least_age is None or age >= wanted.least_age)
            and (wanted.most_age is None or age <= wanted.most_age)
        )

    def _operation(self) -> str:
        self.operations += 1
        return f"o{self.operations}"

    def _revived(self, ids: list[str], *, anew: bool) -> None:
        for id in ids:
            job = self.jobs[id]
            job.place = "ready"
            if anew:
                job.tries = job.crashes = 0
            self.ready[job.level].append(id)
        self.counts["revived"] += len(ids)

    def _forgotten(self, ids: list[str]) -> None:
        for id in ids:
            self.jobs[id].place = "ended"
        self.counts["forgotten"] += len(ids)

    # -- rules ------------------------------------------------------------------------------------------------------

    @rule(session=st.sampled_from(SESSIONS), count=st.integers(1, 3))
    def disaster(self, session: str, count: int) -> None:
        """Push jobs, lease them, and let all jobs of a session die in one call."""
        self.beat(session, joins=True)
        self.push([(0, 0)] * count, known=False, twice=False)
        self.reserve(session, count + 1, twice=False)
        doomed = [leased for holder, leased in self.leased.values() if holder == session]
        outcomes = [Outcome(leased.id, leased.token, "d", self.value(leased.id)) for leased in doomed]
        assert all(self.bench.run(leases.settle(self.queue, session, outcomes, _WINDOW_MS)))
        for leased in doomed:
            self.ended(leased.id, "d", 0)

    @precondition(lambda self: self.jobs)
    @rule(data=st.data(), anew=st.booleans(), twice=st.booleans())
    def retry_one(self, data: st.DataObject, anew: bool, twice: bool) -> None:
        id = data.draw(st.sampled_from(sorted(self.jobs)))
        was = self.jobs[id].place
        moved = self.bench.run(dead.retry_one(self.queue, id, self._operation(), anew=anew), twice=twice)
        assert moved == (was == "dead"), "only a dead job is revived, and a repeated call says the same"
        self._revived([id] if moved else [], anew=anew)

    @rule(
        wanted=st.sampled_from(_FILTERS),
        most=st.sampled_from([None, None, 1, 2]),
        anew=st.booleans(),
        twice=st.booleans(),
    )
    def retry(self, wanted: Filter, most: int | None, anew: bool, twice: bool) -> None:
        meant = self._matching(wanted, (self.bench.now + 1) // 1000)[:most]
        moved = self.bench.run(dead.retry(self.queue, wanted, self._operation(), most, anew=anew), twice=twice)
        assert moved == len(meant)
        self._revived(meant, anew=anew)

    @precondition(lambda self: self.jobs)
    @rule(data=st.data(), twice=st.booleans())
    def delete_one(self, data: st.DataObject, twice: bool) -> None:
        id = data.draw(st.sampled_from(sorted(self.jobs)))
        gone = self.bench.run(dead.delete_one(self.queue, id, self._operation()), twice=twice)
        assert gone == (self.jobs[id].place == "dead")
        self._forgotten([id] if gone else [])

    @rule(wanted=st.sampled_from(_FILTERS[1:]), most=st.sampled_from([None, 1]), twice=st.booleans())
    def delete(self, wanted: Filter, most: int | None, twice: bool) -> None:
        meant = self._matching(wanted, (self.bench.now + 1) // 1000)[:most]
        gone = self.bench.run(dead.delete(self.queue, wanted, self._operation(), most), twice=twice)
        assert gone == len(meant)
        self._forgotten(meant)

    @rule(ttl_ms=st.sampled_from([1, 500, 1500, 86_400_000]), limit=st.sampled_from([0, 2, 100, 100]))
    def trim(self, ttl_ms: int, limit: int) -> None:
        now = (self.bench.now + 1) // 1000
        gone, more = self.bench.run(dead.trim(self.queue, Bounds(ttl_ms, limit)))
        order = self._dead()
        over = max(0, len(order) - limit)
        meant = [id for at, (died, id) in enumerate(order) if at < over or died <= now - ttl_ms]
        assert (gone, more) == (len(meant), False), "the oldest go, and no other"
        self._forgotten(meant)

    @rule(twice=st.booleans(), rarely=st.integers(0, 3))
    def clear(self, twice: bool, rarely: int) -> None:
        if rarely:
            return
        waiting_now = [id for id, job in self.jobs.items() if job.place in ("ready", "suspect", "scheduled")]
        cleared = self.bench.run(browse.clear(self.queue, self._operation(), _WINDOW_MS), twice=twice)
        assert cleared == len(waiting_now)
        for id in waiting_now:
            self.jobs[id].place = "unknown"
        for line in self.ready:
            line.clear()
        self.counts["cleared"] += cleared

    @rule(wanted=st.sampled_from(_FILTERS), most=st.integers(1, 4), newest=st.booleans())
    def read(self, wanted: Filter, most: int, newest: bool) -> None:
        """Read all pages: together they contain each matching job once, in order."""
        now = (self.bench.now + 1) // 1000
        meant = self._matching(wanted, now)
        found: list[DeadJob] = []
        after: str | None = ""
        while after is not None:
            page = self.bench.run(dead.page(self.queue, wanted, after, most, newest=newest))
            assert page.problem is None
            found += page.jobs
            assert len(found) <= len(meant), "each once"
            after = page.next
        assert [job.id for job in found] == (meant[::-1] if newest else meant)
        for job in found:
            assert (job.attempts, job.call.task, job.call.priority) == self._seen(job.id)
            assert job.error.type == _READ[self.jobs[job.id].error][0]
            assert job.dead_for == (now - self.jobs[job.id].died) / 1000
        self._group(wanted, meant)

    def _group(self, wanted: Filter, meant: list[str]) -> None:
        counts: dict[Any, int] = {}
        for id in meant:
            kind = _READ[self.jobs[id].error][0]
            counts[kind] = counts.get(kind, 0) + 1
        # ages depend on the time of the count, which is later here: compare only filters without an age
        if wanted.least_age is None and wanted.most_age is None:
            groups = self.bench.run(dead.groups(self.queue, wanted))
            assert {group.error: group.count for group in groups} == counts
            assert self.bench.run(dead.count(self.queue, wanted)) == len(meant)

    def _seen(self, id: str) -> tuple[int, str, str]:
        job = self.jobs[id]
        return job.tries, "work", ("high", "normal", "low")[job.level]

    @rule()
    def nothing_left_over(self) -> None:
        """Check that the server stores records, errors and attempts only of jobs that it still has."""
        places = {id: job.place for id, job in self.jobs.items()}
        assert self.bench.fields(self.queue.jobs) == {id for id, place in places.items() if place in PLACES}
        assert self.bench.fields(self.queue.errors) == {id for id, place in places.items() if place == "dead"}
        tried = {id for id, job in self.jobs.items() if job.place in PLACES and job.tries}
        assert self.bench.fields(self.queue.tries) == tried

    @rule(most=st.integers(1, 5), skip=st.integers(0, 2))
    def peek(self, most: int, skip: int) -> None:
        found = self.bench.run(browse.peek(self.queue, "ready", skip, most))
        times = sorted((job.due, id) for id, job in self.jobs.items() if job.place == "scheduled")
        line = [id for level in self.ready for id in level] + [id for due, id in times if due <= self.ms]
        line += [id for _, id in sorted((job.suspected, id) for id, job in self.jobs.items() if job.place == "suspect")]
        assert [job.id for job in found] == line[skip : skip + most]
        assert [(job.attempts, job.call.task, job.call.priority) for job in found] == [
            self._seen(job.id) for job in found
        ]
        found = self.bench.run(browse.peek(self.queue, "scheduled", skip, most))
        assert [job.id for job in found] == [id for due, id in times if due > self.ms][skip : skip + most]
