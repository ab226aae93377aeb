"""Workers of flows: leases, outcomes, and their effect on the model."""

from __future__ import annotations

from collections.abc import Sequence

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from flows.model.flow_model import ModelFlow, ModelJob
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import leases
from lockwork.protocol.queue.leases import Leased, Outcome
from lockwork.protocol.queue.record_header import MAX_CRASHES
from models.bench import Bench

DELIVERIES = 3
WINDOW_MS = 60_000
SESSION = "host/1/a"


class FlowWorkers(RuleBasedStateMachine):
    """Workers and a clock."""

    def __init__(self, bench: Bench) -> None:
        super().__init__()
        self.bench = bench
        self.queue = QueueKeys("sim", "q")
        self.flows: dict[str, ModelFlow] = {}
        self.forgotten: set[str] = set()
        self.leased: dict[str, Leased] = {}
        self.requests = 0
        self.simple = False
        """True if this run's flows only have the policy "fail" and no compensations."""
        self.join()

    @initialize(simple=st.booleans())
    def begin(self, *, simple: bool) -> None:
        self.simple = simple

    def join(self) -> None:
        self.bench.run(leases.beat(self.queue, {SESSION: True}, 10**9, 1.0))

    @property
    def ms(self) -> int:
        return self.bench.now // 1000

    def jobs(self) -> dict[str, ModelJob]:
        """Return all jobs and compensations by id."""
        found = [job for flow in self.flows.values() for job in (*flow.jobs.values(), *flow.compensations)]
        return {job.id: job for job in found}

    def _in(self, *places: str) -> list[str]:
        return sorted(id for id, job in self.jobs().items() if job.place in places)

    def _carry_on(self) -> None:
        for flow in self.flows.values():
            flow.now = self.ms
            flow.carry_on()

    def _end(self, job: ModelJob, letter: str) -> None:
        job.flow.now = self.ms
        job.flow.end(job, letter)

    def _expire(self) -> None:
        """Let the server continue unfinished work, and forget flows that ended long ago."""
        self.bench.run(leases.expire(self.queue, WINDOW_MS))
        for name, flow in self.flows.items():
            if flow.state == "ended" and flow.ended_at + WINDOW_MS <= self.ms:
                self.forgotten.add(name)

    def after(self) -> None:
        """Run after each change; a subclass may override this."""

    @rule(want=st.integers(1, 6), twice=st.booleans())
    def reserve(self, want: int, *, twice: bool) -> None:
        self.requests += 1
        asked = leases.reserve(self.queue, SESSION, want, f"q{self.requests}", "", window_ms=WINDOW_MS)
        batch = self.bench.run(asked, twice=twice)
        self._expire()
        known = self.jobs()
        for job in known.values():
            if job.place == "scheduled" and job.due <= self.ms:
                job.place = "ready"
        for leased in batch.jobs:
            assert leased.id in known, f"{leased.id} is no job"
            job = known[leased.id]
            assert job.place == "ready", f"{leased.id} is {job.place}"
            if not job.compensation:
                parents = [job.flow.jobs[number] for number in job.before]
                assert all(parent.ended for parent in parents), "it waits for its parents"
                caused = job.revived or any(map(job.flow.has_failed, job.causes))
                assert caused or not job.causes, "it waits for a failure"
            assert (leased.attempt, leased.crashes) == (job.tries + 1, job.crashes)
            job.place = "running"
            self.leased[leased.id] = leased
        if len(batch.jobs) < want:
            assert all(known[id].keyed for id in self._in("ready")), "nothing is left that may run"

    @precondition(lambda self: self.leased)
    @rule(data=st.data(), kinds=st.lists(st.sampled_from("ssssrdg"), min_size=1, max_size=4), twice=st.booleans(),
          delay=st.sampled_from([0, 1500]))  # fmt: skip
    def settle(self, data: st.DataObject, kinds: list[str], delay: int, *, twice: bool) -> None:
        ids = data.draw(st.permutations(sorted(self.leased)))[: len(kinds)]
        outcomes = [
            Outcome(id, self.leased[id].token, kind, b"value", delay if kind == "r" else 0)  # type: ignore[arg-type]
            for id, kind in zip(ids, kinds, strict=False)
        ]
        settled = self.bench.run(leases.settle(self.queue, SESSION, outcomes, WINDOW_MS), twice=twice)
        assert settled == [not twice] * len(outcomes)
        self._note(outcomes)

    def _note(self, outcomes: Sequence[Outcome]) -> None:
        """Apply outcomes that the server accepted to the model, including the effect on other jobs."""
        known = self.jobs()
        for outcome in outcomes:
            del self.leased[outcome.id]
            self._settled(known[outcome.id], outcome)
        self._carry_on()
        self.after()

    def _settled(self, job: ModelJob, outcome: Outcome) -> None:
        kind: str = outcome.kind
        if job.asked and kind != "s":
            kind = "c"
        job.asked = False
        job.tries += kind in "srdc"
        if kind in "sdc":
            self._end(job, "f" if kind == "d" else kind)
        else:
            job.place, job.due = "scheduled", self.ms + outcome.delay_ms

    @rule()
    def recover(self) -> None:
        """Recover the session: counted after a crash with at most one job, uncounted after a stop with several."""
        died = len(self.leased) <= 1
        moved = self.bench.run(leases.recover(self.queue, SESSION, WINDOW_MS, gone=True, counted=died))
        known = self.jobs()
        held, self.leased = self.leased, {}
        for id in sorted(held, reverse=True):
            job = known[id]
            job.tries += died
            job.crashes += died
            if job.asked:
                job.asked = False
                self._end(job, "c")
            elif job.crashes >= MAX_CRASHES:
                self._end(job, "f")
            else:
                job.place, job.due = "scheduled", self.ms
                moved -= 1
        self.join()
        assert moved == 0
        self._carry_on()
        self.after()

    @rule(milliseconds=st.sampled_from([1, 1500, 1500, 70_000]))
    def wait(self, milliseconds: int) -> None:
        self.bench.now += milliseconds * 1000
