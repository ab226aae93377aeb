"""Workers of unique jobs: leases, outcomes, and their effect on the model."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import job_control as control
from lockwork.protocol.queue import leases
from lockwork.protocol.queue.job_control import Note
from lockwork.protocol.queue.leases import Leased, Outcome
from lockwork.protocol.queue.record_header import MAX_CRASHES
from models.bench import Bench
from queues.model.unique_model import UniqueModel

DELIVERIES = 3
WINDOW_MS = 3_600_000
_SESSION = "host/1/a"


class UniqueWorkers(RuleBasedStateMachine):
    """Workers and a clock."""

    def __init__(self, bench: Bench) -> None:
        super().__init__()
        self.bench = bench
        self.queue = QueueKeys("sim", "q")
        self.model = UniqueModel()
        self.jobs = self.model.jobs
        self.leased: dict[str, Leased] = {}
        self.requests = 0
        self.join()

    def join(self) -> None:
        self.bench.run(leases.beat(self.queue, {_SESSION: True}, 10**9, 1.0))

    @property
    def ms(self) -> int:
        return self.bench.now // 1000

    def _request(self) -> str:
        self.requests += 1
        return f"q{self.requests}"

    def _at(self, *places: str) -> list[str]:
        return sorted(id for id, job in self.jobs.items() if job.place in places)

    @rule(want=st.integers(2, 5), twice=st.booleans())
    def reserve(self, want: int, *, twice: bool) -> None:
        batch = self.bench.run(leases.reserve(self.queue, _SESSION, want, self._request(), ""), twice=twice)
        for id in self._at("waits"):
            if self.jobs[id].overdue(self.ms):
                self.jobs[id].noted, self.jobs[id].expires = False, None
                self.model.end(id, "expired")
        for leased in batch.jobs:
            job = self.jobs[leased.id]
            assert job.place == "waits"
            assert job.due <= self.ms, "never early"
            assert leased.record == job.record, "the last call counts"
            assert (leased.attempt, leased.crashes) == (job.tries + 1, job.crashes)
            assert bool(Note.read(leased.note).steps) == job.noted, "steps are its own"
            job.place, job.expires = "running", None
            self.leased[leased.id] = leased
            if job.until == "start":
                self.model.free(leased.id)
        running = {self.jobs[id].key for id in self.leased}
        assert len(running - {""}) == sum(self.jobs[id].key != "" for id in self.leased), "one at a time per key"
        if len(batch.jobs) < want:
            alive = [self.jobs[id].key for id in self._at("waits", "running")]
            for id in self._at("waits"):
                job = self.jobs[id]
                blocked = job.key and alive.count(job.key) > 1
                assert job.due > self.ms or blocked, "nothing is left that may run"

    @precondition(lambda self: self.leased)
    @rule(data=st.data(), kind=st.sampled_from("ssrrdddgzc"), delay=st.sampled_from([0, 1500]), twice=st.booleans())
    def settle(self, data: st.DataObject, kind: str, delay: int, *, twice: bool) -> None:
        self._settle(data.draw(st.sampled_from(sorted(self.leased))), kind, delay, twice=twice)

    def _settle(self, id: str, kind: str, delay: int, *, twice: bool) -> None:
        ended = Outcome(id, self.leased[id].token, kind, b"{}", delay if kind in "rz" else 0)  # type: ignore[arg-type]
        settled = self.bench.run(leases.settle(self.queue, _SESSION, [ended], WINDOW_MS), twice=twice)
        assert settled == [not twice]
        del self.leased[id]
        job = self.jobs[id]
        if job.asked and kind != "s":
            kind = "c"
        job.tries += kind in "srdc"
        job.noted = job.noted and kind not in "sc"
        if kind in "sdc":
            job.died = self.ms
            self.model.end(id, {"s": "succeeded", "d": "dead", "c": "cancelled"}[kind])
        else:
            job.place, job.due = "waits", self.ms + (delay if kind in "rz" else 0)

    @precondition(lambda self: self.leased)
    @rule()
    def finish_steps(self) -> None:
        for id, leased in self.leased.items():
            assert self.bench.run(control.note(self.queue, _SESSION, leased, "step", b"1", 1000)) == 1
            self.jobs[id].noted = True

    @rule()
    def recover(self) -> None:
        """Recover the session: counted after a crash with at most one job, uncounted after a stop with several."""
        died = len(self.leased) <= 1
        given = self.bench.run(leases.recover(self.queue, _SESSION, WINDOW_MS, gone=True, counted=died))
        held, self.leased = self.leased, {}
        for id in held:
            job = self.jobs[id]
            job.tries += died
            job.crashes += died
            if job.asked:
                job.noted = False
                self.model.end(id, "cancelled")
            elif job.crashes >= MAX_CRASHES:
                job.died = self.ms
                self.model.end(id, "dead")
            else:
                job.place, job.due = "waits", self.ms
                given -= 1
        assert given == 0
        self.join()

    @rule(milliseconds=st.sampled_from([1, 700, 1500, 2500]))
    def wait(self, milliseconds: int) -> None:
        self.bench.now += milliseconds * 1000
