"""Flows of any shape, with random outcomes, worker deaths and cancellations, compared with their model."""

from __future__ import annotations

from collections import Counter

import hypothesis.strategies as st
from hypothesis.stateful import precondition, rule

from flows.model.flow_model import WAITING, ModelFlow, ModelJob
from flows.model.flow_workers import DELIVERIES, SESSION, WINDOW_MS, FlowWorkers
from lockwork.protocol.flows import flows
from lockwork.protocol.flows.flows import FlowJob, Policy
from lockwork.protocol.queue import browse, leases, record_header
from lockwork.protocol.queue import job_control as control
from lockwork.protocol.queue import status as queue_status
from lockwork.protocol.queue.leases import Outcome

_RECORD = record_header.head(1, DELIVERIES) + b"body"
_KEYED = record_header.head(1, DELIVERIES, "key") + b"body"
Shape = list[tuple[set[int], Policy, int, bool, set[int]]]
_STATES = {"ready": "active", "running": "active", "scheduled": "scheduled", "blocked": "blocked"}
SHAPES = st.lists(
    st.tuples(
        st.sets(st.integers(1, 4), max_size=3),
        st.sampled_from(["fail", "fail", "ignore", "compensate"]),
        st.sampled_from([0, 0, 0, 1500]),
        st.booleans(),
        st.one_of(st.just(set()), st.just(set()), st.sets(st.integers(1, 4), max_size=2)),
    ),
    min_size=0,
    max_size=7,
)


class FlowMachine(FlowWorkers):
    """Producers and operators in addition to workers and the clock."""

    # -- producers --------------------------------------------------------------------------------------------------

    @rule(shape=SHAPES, twice=st.booleans(), keyed=st.booleans())
    def push(self, shape: Shape, *, twice: bool, keyed: bool) -> None:
        self.push_one(shape, twice=twice, keyed=keyed)

    def push_one(self, shape: Shape, *, twice: bool, keyed: bool) -> None:
        flow = ModelFlow(f"f{len(self.flows)}")
        if self.simple:
            shape = [(back, "fail", delay, False, set()) for back, _, delay, *_ in shape]
        new = []
        for number, (back, policy, delay, undo, failing) in enumerate(shape, 1):
            parents = frozenset(number - far for far in back if far < number)
            causes = frozenset(number - far for far in failing if far < number) - parents
            job = flow.jobs[number] = ModelJob(flow, number, parents, policy, delay, undo, causes=causes)
            job.keyed = keyed and number % 2 == 1
            record = _KEYED if job.keyed else _RECORD
            compensation = _RECORD if undo else b""
            new.append(FlowJob(record, sorted(parents), delay, policy, compensation, causes=sorted(causes)))
        assert self.bench.run(flows.push(self.queue, flow.name, new, "answer", WINDOW_MS), twice=twice)
        self.flows[flow.name] = flow
        flow.now = self.ms
        flow.begin()
        flow.carry_on()  # a flow without jobs has ended
        self.after()

    @precondition(lambda self: self._in("blocked", *WAITING, "running"))
    @rule(data=st.data(), twice=st.booleans())
    def cancel_job(self, data: st.DataObject, *, twice: bool) -> None:
        id = data.draw(st.sampled_from(self._in("blocked", *WAITING, "running")))
        job = self.jobs()[id]
        done = self.bench.run(control.cancel(self.queue, id, "sim", WINDOW_MS), twice=twice)
        if job.place == "running":
            assert done == "running"
            job.asked = True
        else:
            assert done == "cancelled"
            self._end(job, "c")
            self._carry_on()
        self.after()

    @precondition(lambda self: self.flows)
    @rule(data=st.data(), twice=st.booleans(), rarely=st.integers(0, 2))
    def cancel_flow(self, data: st.DataObject, *, twice: bool, rarely: int) -> None:
        name = data.draw(st.sampled_from(sorted(self.flows)))
        flow = self.flows[name]
        if rarely or name in self.forgotten:
            return
        state = flow.state
        done, running = self.bench.run(flows.cancel(self.queue, name, WINDOW_MS), twice=twice)
        if state != "running":
            # a repeated call cannot distinguish its own first try from an earlier cancellation
            assert done in ("ended", "unknown") or (twice and flow.stopped and done == "cancelled")
            return
        flow.now = self.ms
        asked = flow.cancel()
        if not twice:
            assert running == [job.id for job in asked]
        for job in asked:
            job.asked = True
        self._carry_on()
        assert done == "cancelled"
        self.after()

    @precondition(lambda self: self._in("dead", "cancelled"))
    @rule(data=st.data(), twice=st.booleans())
    def revive(self, data: st.DataObject, *, twice: bool) -> None:
        """Rerun a dead or cancelled job. Its flow does not change, and the job waits for unfinished parents."""
        id = data.draw(st.sampled_from(self._in("dead", "cancelled")))
        job = self.jobs()[id]
        waits = job.place == "cancelled" and not all(job.flow.jobs[number].ended for number in job.before)
        done = self.bench.run(control.revive(self.queue, id), twice=twice)
        if done == "unknown" and job.place == "cancelled" and job.cancelled_at + WINDOW_MS <= self.ms:
            return
        assert done == ("blocked" if waits else "revived")
        if not waits:
            job.place, job.due, job.tries, job.crashes = "scheduled", self.ms, 0, 0
            job.revived = True
        self.after()

    @precondition(lambda self: self._in("skipped"))
    @rule(data=st.data())
    def revive_skipped(self, data: st.DataObject) -> None:
        id = data.draw(st.sampled_from(self._in("skipped")))
        assert self.bench.run(control.revive(self.queue, id)) in ("succeeded", "unknown")
        self.after()

    @precondition(lambda self: self._in("blocked", *WAITING))
    @rule(data=st.data(), wait=st.sampled_from([0, 1500]))
    def move(self, data: st.DataObject, wait: int) -> None:
        id = data.draw(st.sampled_from(self._in("blocked", *WAITING)))
        job = self.jobs()[id]
        moved = self.bench.run(control.reschedule(self.queue, id, wait))
        if job.place == "blocked":
            assert moved == "blocked"
            return
        assert moved == "scheduled"
        if wait or job.place == "scheduled":
            job.place, job.due = "scheduled", self.ms + wait
        self.after()

    @precondition(lambda self: self.simple)
    @rule(rarely=st.integers(0, 1))
    def clear(self, rarely: int) -> None:
        """Clear the queue: each waiting job counts as cancelled for its flow.

        Only with simple flows: with ignored failures, cancelling one job would release others during the call.
        """
        there = self._in(*WAITING)
        known = self.jobs()
        if rarely:
            return
        self.requests += 1
        assert self.bench.run(browse.clear(self.queue, f"c{self.requests}", WINDOW_MS)) == len(there)
        for id in sorted(there):
            self._end(known[id], "c")
            known[id].place = "cleared"  # a cleared job cannot be rerun
        self._carry_on()
        self.after()

    # -- invariants ---------------------------------------------------------------------------------------------------

    @rule()
    def look(self) -> None:
        """Compare the place of each job and the state of each flow with the model."""
        self._expire()
        status, _ = self.bench.run(queue_status.status(self.queue))
        places = Counter(job.place for job in self.jobs().values())
        assert status.skipped == places["skipped"]
        assert status.blocked == places["blocked"]
        assert status.ready + status.scheduled == places["ready"] + places["scheduled"]
        for id, job in self.jobs().items():
            found = self.bench.run(leases.job_state(self.queue, id)).state
            if job.place not in _STATES:
                assert found in ("ended", "unknown", job.place), f"{id}: {found}, {job.place}"
            elif job.place in WAITING:  # the model makes a due job ready only when a worker asks for jobs
                assert found in ("scheduled", "active"), f"{id}: {found}, {job.place}"
            else:
                assert found == _STATES[job.place], f"{id}: {found}, {job.place}"
                assert self.bench.run(control.find_place(self.queue, id)).state == job.place
        for name, flow in self.flows.items():
            seen = self.bench.run(flows.inspect(self.queue, name))
            if name in self.forgotten:
                assert seen is None
                assert not [field for field in self.bench.fields(self.queue.flows) if field.split(" ")[0] == name]
                continue
            assert seen is not None
            assert (seen.state, seen.jobs) == (flow.state, len(flow.jobs))
            counts = (seen.succeeded, seen.failed, seen.cancelled, seen.skipped, seen.compensated, seen.uncompensated)
            ended = [flow.count(letter) for letter in "sfcn"]
            assert counts == (*ended, flow.compensated, flow.uncompensated)
            assert bool(seen.failure) == bool(flow.failure)
            assert seen.stopped == flow.stopped
            blobs = [outcome.blob for outcome in self.bench.run(flows.results(self.queue, name, list(flow.jobs)))]
            assert [blob[:1].decode() for blob in blobs] == [job.ended[:1] for job in flow.jobs.values()]
            for blob, job in zip(blobs, flow.jobs.values(), strict=True):
                assert bool(blob[1:]) == (job.ended in ("s", "f") or job.ended[1:] != ""), "cancelled for a reason"

    def teardown(self) -> None:
        """Run all jobs that are left, and check that each flow ends and that the server then forgets it."""
        for _ in range(300):
            for flow in self.flows.values():
                flow.now = self.ms
            self.bench.now += 2_000_000
            self.reserve(6, twice=False)
            if not self.leased and not self._in(*WAITING):
                break
            if self.leased:
                outcomes = [Outcome(id, leased.token, "s", b"value") for id, leased in self.leased.items()]
                assert all(self.bench.run(leases.settle(self.queue, SESSION, outcomes, WINDOW_MS)))
                self._note(outcomes)
        self.look()
        assert all(flow.state == "ended" for flow in self.flows.values()), "a flow hangs"
        self.bench.now += 1000 * (WINDOW_MS + 1000)
        self._expire()
        left = self.bench.fields(self.queue.flows)
        assert not left, f"left behind: {left}"
