"""A plain Python model of the queue: the place and deliveries of each job, and the lease that may settle it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import enqueue, leases, record_header
from lockwork.protocol.queue import job_control as control
from lockwork.protocol.queue import status as queue_status
from lockwork.protocol.queue.enqueue import NewJob
from lockwork.protocol.queue.leases import Batch, Buried, Leased, Outcome, SessionOver
from models.bench import Bench

BODY = b'["work",[1]]'
DELIVERIES = 3
_LEASE_MS = 5000
WINDOW_MS = 3_600_000
VOID = "-"
"""Prefix of a job's id in a ready list if the job has left its position there."""
ENDED = ("succeeded", "dead", "cancelled", "expired")
PLACES = ("ready", "suspect", "scheduled", "running", "dead")
SESSIONS = ["host/1/a", "host/2/b"]


def _most(number: int) -> int:
    """Return the delivery cap of a job: of eight jobs, one has the cap 1, one has 2, and six have none (0)."""
    return {1: 1, 3: 2}.get(number % 8, 0)


@dataclass
class ModelJob:
    level: int
    place: str = "ready"
    due: int = 0
    tries: int = 0
    """Number of deliveries that count."""
    crashes: int = 0
    """Number of counted deliveries that ended with the death of a worker running no other job."""
    suspected: int = 0
    """The fence that sorts a suspect; 0 if it was returned."""
    most: int = 0
    """Maximum number of deliveries; 0 for no maximum."""
    expires: int | None = None
    expired_unbegun: int | None = None
    """The expiry that the job had before its lease."""
    asked: bool = False
    """True if its worker has a cancellation request for it."""
    steps: dict[str, str] = field(default_factory=dict)
    """Checkpoints of the job."""
    said: str = ""
    """Progress of the job."""
    died: int = 0
    error: bytes = b""


class QueueMachine(RuleBasedStateMachine):
    """Producers, workers and a clock."""

    def __init__(self, bench: Bench) -> None:
        super().__init__()
        self.bench = bench
        self.queue = QueueKeys("sim", "q")
        self.jobs: dict[str, ModelJob] = {}
        self.ready: tuple[list[str], ...] = ([], [], [])
        self.leased: dict[str, tuple[str, Leased]] = {}
        self.old: list[tuple[str, Leased]] = []
        self.alive: dict[str, int] = {}
        self.stopping: set[str] = set()
        """Sessions of workers that are stopping."""
        self.counts = dict.fromkeys(["succeeded", "failed", "retried", "recovered"], 0)
        self.requests = 0
        self.channel = ""
        """Channel to wake if a reserve call leases no job."""
        for session in SESSIONS:
            self.beat(session, joins=True)

    @property
    def ms(self) -> int:
        return self.bench.now // 1000

    @rule(
        new=st.lists(st.tuples(st.integers(0, 2), st.sampled_from([0, 0, 1, 1500])), min_size=1, max_size=3),
        known=st.booleans(),
        twice=st.booleans(),
    )
    def push(self, new: list[tuple[int, int]], known: bool, twice: bool) -> None:
        """Enqueue jobs. known: the batch includes an id that is stored already."""
        again, batch = self._batch(new, known)
        added = self.bench.run(enqueue.push(self.queue, again + batch), twice=twice)
        assert added == (0 if twice else len(batch))
        self._pushed(batch)

    def _batch(self, new: list[tuple[int, int]], known: bool) -> tuple[list[NewJob], list[NewJob]]:
        """Return a batch of one stored job, or none, and a batch of new jobs."""
        waiting = next((id for id, job in self.jobs.items() if job.place in PLACES), None)
        return [NewJob(waiting, b"1,1,,;other")] if known and waiting else [], [
            NewJob(
                f"j{number:03}",
                record_header.head(level, DELIVERIES, deliveries=_most(number), hidden=number % 3 == 0) + BODY,
                delay,
            )
            for number, (level, delay) in enumerate(new, len(self.jobs))
        ]

    def _pushed(self, batch: list[NewJob]) -> None:
        for job in batch:
            level = job.record[0] - 48
            self.jobs[job.id] = ModelJob(level, most=record_header.budget(job.record).deliveries)
            if job.delay_ms:
                self.jobs[job.id].place, self.jobs[job.id].due = "scheduled", self.ms + job.delay_ms
            else:
                self.ready[level].append(job.id)

    @rule(session=st.sampled_from(SESSIONS), joins=st.booleans())
    def beat(self, session: str, joins: bool, *, stops: bool = False) -> None:
        alive = joins or session in self.alive
        found = self.bench.run(leases.beat(self.queue, {session: joins}, _LEASE_MS, 1.0, stopping=stops))
        assert found.alive == {session: alive}
        if alive:
            self.alive[session] = self.ms + _LEASE_MS
            (self.stopping.add if stops else self.stopping.discard)(session)
        others = {other: ends for other, ends in self.alive.items() if other != session}
        overdue = [other for other, ends in others.items() if ends <= self.ms]
        assert found.overdue in overdue if overdue else found.overdue is None

    @rule(session=st.sampled_from(SESSIONS), want=st.integers(1, 4), twice=st.booleans())
    def reserve(self, session: str, want: int, twice: bool) -> None:
        self.requests += 1
        asked = leases.reserve(self.queue, session, want, f"q{self.requests}", self.channel)
        try:
            batch = self.bench.run(asked, twice=twice)
        except SessionOver:
            assert session not in self.alive
            return
        assert session in self.alive
        self.before_reserve()
        ripe = sorted((job.due, id) for id, job in self.jobs.items() if job.place == "scheduled" and job.due <= self.ms)
        for _, id in ripe:
            self.line_up(id)
        expected: list[str] = []
        room = self.room(want)
        for line in self.ready:
            while line and len(expected) < room:
                id = line.pop(0)
                if not id.startswith(VOID):
                    expected.append(id)
        assert sorted(job.id for job in batch.jobs) == sorted(expected), "first come, by priority"
        for job in batch.jobs:
            known = self.jobs[job.id]
            assert (job.attempt, job.crashes) == (known.tries + 1, known.crashes), "attempts are exact"
            known.place = "running"
            self.leased[job.id] = session, job
            self.leased_now(job)
            self.old.append((session, job))
        self.answered(batch)

    @rule(session=st.sampled_from(SESSIONS), twice=st.booleans())
    def reserve_suspect(self, session: str, twice: bool) -> None:
        """An isolation process asks for a job; it gets at most one."""
        self.requests += 1
        asked = leases.reserve_suspect(self.queue, session, f"q{self.requests}")
        try:
            batch = self.bench.run(asked, twice=twice)
        except SessionOver:
            assert session not in self.alive
            return
        idle = not any(self._holds(session, job) for _, job in self.leased.values())
        waiting = sorted((job.suspected, id) for id, job in self.jobs.items() if job.place == "suspect")
        expected = [id for _, id in waiting[:1]] if idle and self.room(1) else []
        assert [job.id for job in batch.jobs] == expected, "suspects run one at a time, in their order"
        for job in batch.jobs:
            known = self.jobs[job.id]
            assert (job.attempt, job.crashes) == (known.tries + 1, known.crashes), "attempts are exact"
            known.place = "running"
            self.leased[job.id] = session, job
            self.leased_now(job)
            self.old.append((session, job))

    @precondition(lambda self: self.old)
    @rule(
        data=st.data(),
        kind=st.sampled_from("srdgkK"),
        delay=st.sampled_from([0, 1500]),
        stale=st.booleans(),
        twice=st.booleans(),
    )
    def settle(self, data: st.DataObject, kind: str, delay: int, stale: bool, twice: bool) -> None:
        """Settle a current or ended delivery. stale: an ended delivery whose job the same session leased again."""
        renewed = [old for old in self.old if old != self.leased.get(old[1].id) and self._holds(*old)]
        session, leased = data.draw(st.sampled_from(renewed if stale and renewed else self.old[-6:]))
        current = self.leased.get(leased.id) == (session, leased)
        ended = Outcome(leased.id, leased.token, kind, self.value(leased.id), delay)  # type: ignore[arg-type]
        settled = self.bench.run(leases.settle(self.queue, session, [ended], WINDOW_MS), twice=twice)
        assert settled == [current and not twice], "only the current lease settles, and once"
        if not current:
            return
        self.ended(leased.id, kind, delay)

    def ended(self, id: str, kind: str, delay: int) -> None:
        """Apply the outcome of a settled current delivery to the model."""
        _, leased = self.leased.pop(id)
        job = self.jobs[id]
        if self.settled(id, kind):
            return
        if kind == "g" and _alone(leased):
            job.place, job.suspected = "suspect", 0
            return
        if kind == "g":
            job.place = "ready"
            self.ready[job.level].insert(0, id)
            return
        job.tries += 1
        job.crashes += kind in "kK"
        kind = {"k": "r", "K": "d"}.get(kind, kind)
        job.place = {"s": "succeeded", "r": "scheduled", "d": "dead"}[kind]
        job.due = self.ms + delay
        job.died, job.error = self.ms, self.value(id)
        self.counts["succeeded"] += kind == "s"
        self.counts["failed"] += kind in "rd"
        self.counts["retried"] += kind == "r"

    def value(self, id: str) -> bytes:
        """Return the value that settles a delivery of this job."""
        return b"value"

    def _holds(self, session: str, job: Leased) -> bool:
        return self.leased.get(job.id, ("",))[0] == session

    @rule(session=st.sampled_from(SESSIONS), gone=st.sampled_from([False, False, True]), twice=st.booleans())
    def recover(self, session: str, gone: bool, twice: bool) -> None:
        """Recover the jobs of a session that is over, or that the caller wrongly calls overdue."""
        held = [id for id, (holder, _) in self.leased.items() if holder == session]
        over = gone or self.alive.get(session, 0) * 1000 <= self.bench.now + 1
        # a session that has beaten since then has another deadline than the caller read
        ended = self.alive.get(session, 0) - (0 if over else 1)
        buried: list[Buried] = []
        ending = leases.recover(self.queue, session, WINDOW_MS, gone=gone, ended=ended, on_buried=buried.extend)
        given = self.bench.run(ending, twice=twice)
        if not over:
            assert given == 0, "a session that is not over keeps its jobs"
            return
        self.alive.pop(session, None)
        places = self._back(held, counted=gone or session not in self.stopping)
        self.stopping.discard(session)
        assert given == (0 if twice else places["ready"])
        if not twice:
            assert len(buried) == places["dead"], "who recovers jobs is told of all that are dead by it"
            self._check_buried(buried)

    def _back(self, held: list[str], *, counted: bool) -> Counter[str]:
        """End a session that held these jobs; return how many became ready or dead. counted: its process died."""
        places: Counter[str] = Counter()
        shared = counted and len(held) > 1
        for id in sorted(held, reverse=True):  # each job goes to the front, so that the oldest is first
            _, leased = self.leased.pop(id)
            job = self.jobs[id]
            if self.recovered(id):
                continue
            if counted or job.most:
                job.tries += 1
                job.crashes += not shared
            self.counts["recovered"] += counted
            if (counted or job.most) and (
                job.tries >= job.most if job.most else job.crashes >= record_header.MAX_CRASHES
            ):
                job.place = "dead"
                job.died, job.error = self.ms, b"WorkerDied"
                self.counts["failed"] += 1
            elif shared or _alone(leased):
                job.place, job.suspected = "suspect", leased.fence if counted or job.most else 0
            else:
                job.place = "ready"
                self.ready[job.level].insert(0, id)
            places["dead" if job.place == "dead" else "ready"] += 1
        return places

    def _check_buried(self, buried: list[Buried]) -> None:
        """Check the jobs that died in this recovery against its report."""
        for job in buried:
            known = self.jobs[job.id]
            assert (known.place, known.tries, job.task) == ("dead", job.attempt, "work")
            assert "while it ran" in job.problem

    @rule(milliseconds=st.sampled_from([1, 500, 1500, 6000]))
    def wait(self, milliseconds: int) -> None:
        self.bench.now += milliseconds * 1000

    @rule()
    def count(self) -> None:
        """Check that each job is in one place, and that the counters agree."""
        status, workers = self.bench.run(queue_status.status(self.queue))
        places = [self.seen_place(job) for job in self.jobs.values()]
        # sessions that are over are not listed, and hold nothing
        assert {worker.session for worker in workers} == self.alive.keys()
        counted = (status.ready, status.scheduled, status.running, status.dead)
        assert counted == tuple(places.count(place) for place in ("ready", "scheduled", "running", "dead"))
        assert self.bench.scores(self.queue.suspects).keys() == {
            id for id, job in self.jobs.items() if job.place == "suspect"
        }
        assert status.enqueued == len(self.jobs)
        assert {name: getattr(status, name) for name in self.counts} == self.counts
        for id, job in self.jobs.items():
            found = self.bench.run(leases.job_state(self.queue, id)).state
            seen = self.seen_place(job)  # each call takes time
            state = "active" if seen in ("ready", "running") else "ended" if job.place in ENDED else seen
            overdue = job.place in ("ready", "scheduled") and job.expires is not None and job.expires <= self.ms
            assert found == ("overdue" if overdue else state)
            place = self.bench.run(control.find_place(self.queue, id))
            seen = self.seen_place(job)
            assert place.state == (seen if seen in ("ready", "running", "scheduled") else "gone")
            assert place.workers == sum(ends > self.ms for ends in self.alive.values())

    def seen_place(self, job: ModelJob) -> str:
        """Return the place that a reader sees: a due job is ready before the server has moved it."""
        due = job.place == "scheduled" and job.due <= self.ms
        return "ready" if due or job.place == "suspect" else job.place

    # -- hooks for machines with more rules ---------------------------------------------------------------------------

    def before_reserve(self) -> None:
        """Run before the model of a reserve call."""

    def room(self, want: int) -> int:
        """Return how many of `want` jobs may be leased now."""
        return want

    def leased_now(self, job: Leased) -> None:
        """Run for each leased job."""

    def answered(self, batch: Batch) -> None:
        """Run after the model of a reserve call, with its batch."""

    def line_up(self, id: str) -> None:
        """Make a due job ready."""
        self.jobs[id].place = "ready"
        self.ready[self.jobs[id].level].append(id)

    def settled(self, id: str, kind: str) -> bool:
        """Run for each settled delivery. Return True if the subclass has handled it."""
        return False

    def recovered(self, id: str) -> bool:
        """Run for each recovered job. Return True if the subclass has handled it."""
        return False


def _alone(job: Leased) -> bool:
    """Return True if the job was leased to an isolation process."""
    return job.token.rpartition(b" ")[2].startswith(leases.ALONE.encode())
