"""Users of flows: workers whose jobs use each other's results, planners, and a canceller."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any

from lockwork.errors import LockworkError
from lockwork.ids import node_id
from lockwork.protocol.effects import Effect
from lockwork.protocol.flows import flows
from lockwork.protocol.flows.flows import FlowJob, Policy
from lockwork.protocol.queue import job_control as control
from lockwork.protocol.queue import record_header
from lockwork.protocol.queue.leases import Leased, Outcome
from queues.simulation.queue_actors import WINDOW_MS, Child, Plant
from queues.simulation.queue_view import DELIVERIES, Made
from simulator.process import Actor, Cancelled, Sleep
from simulator.world import Broken

POLICIES: tuple[Policy, ...] = ("fail", "fail", "ignore", "compensate")


@dataclass
class FlowPlant(Plant):
    """The users of a queue with flows."""

    plans: dict[str, list[FlowJob]] = field(default_factory=dict)
    stored: list[str] = field(default_factory=list)
    """Flows whose producers received the confirmation."""
    ends: dict[str, bytes] = field(default_factory=dict)
    """First outcome of each job of a flow, by id; the checker fills this in."""

    def member(self, id: str) -> tuple[str, int] | None:
        """Return a job's flow and number; None outside of flows. A compensation has the number of the job it undoes."""
        flow, _, number = id.rpartition(".")
        return (flow, int(number.rstrip("u"))) if flow in self.plans else None

    def parents(self, id: str) -> list[int]:
        """Return the numbers of the jobs that a job of a flow waits for."""
        flow, number = self.member(id) or ("", 0)
        return sorted(set(self.plans[flow][number - 1].parents)) if flow else []

    def causes(self, id: str) -> list[int]:
        """Return the numbers of the jobs whose failure a job of a flow waits for."""
        flow, number = self.member(id) or ("", 0)
        return sorted(set(self.plans[flow][number - 1].causes)) if flow else []

    def caused(self, id: str, ends: Mapping[str, bytes]) -> bool | None:
        """Return True if the failure that a job waits for has occurred, False if it will not; None before that."""
        flow, _ = self.member(id) or ("", 0)
        failed: list[bool | None] = []
        for number in self.causes(id):
            end = ends.get(node_id(flow, number))
            if end is not None and end[:1] == b"c" and end[1:]:
                end = ends[node_id(flow, int(end[1:]))]
            failed.append(None if end is None else end[:1] == b"f")
        return True if True in failed or not failed else None if None in failed else False

    def ending(self, child: Child, job: Leased) -> Generator[Effect | Sleep, Any, Outcome]:
        """Fetch and check the results that the job uses, as a worker does, before the job begins."""
        found = self.member(job.id)
        if found is not None:
            flow, number = found
            used = [number] if job.id.endswith("u") else [*self.parents(job.id), *self.causes(job.id)]
            while True:
                try:
                    outcomes = yield from flows.results(self.queue, flow, used)
                    break
                except LockworkError:
                    yield Sleep(0.2)
            for wanted, (blob, _) in zip(used, outcomes, strict=True):
                if not self.fits(node_id(flow, wanted), blob):
                    raise Broken(f"{job.id} uses the result of job {wanted}, and gets {blob!r}")
        return (yield from super().ending(child, job))

    def fits(self, id: str, blob: bytes) -> bool:
        """Return True if this is the recorded outcome of a job."""
        return blob == self.ends.get(id, b"")

    def outcome(self, job: Leased) -> Outcome:
        """Draw an outcome; jobs of flows die more often than others."""
        if self.member(job.id) and self.world.random.random() < 0.12:
            return Outcome(job.id, job.token, "d", b"failed")
        return super().outcome(job)


def shape(random: Random) -> list[list[int]]:
    """Draw a chain, a group, a chord, two layers or any graph: for each job, the jobs that it waits for."""
    count, kind = random.randint(1, 6), random.choice(["chain", "group", "chord", "layers", "any", "any"])
    if kind == "chain":
        return [[number] if number else [] for number in range(count)]
    if kind == "any":
        return [random.sample(range(1, number + 1), random.randint(0, min(number, 3))) for number in range(count)]
    last = {"group": 0, "chord": 1, "layers": 4}[kind]
    return [[] for _ in range(count)] + [list(range(1, count + 1)) for _ in range(last)]


def causes(random: Random, number: int, parents: list[int]) -> list[int]:
    """Draw jobs whose failure a job waits for: mostly none."""
    others = [other for other in range(1, number) if other not in parents]
    return random.sample(others, min(len(others), random.choice([0, 0, 0, 1, 1, 2])))


def planner(plant: FlowPlant, name: str, rounds: int) -> Actor:
    """Enqueue flows."""
    random = plant.world.random
    for turn in range(rounds):
        with suppress(LockworkError, Cancelled):
            yield Sleep(random.uniform(0, 4))
            flow, tame = f"{name}{turn}", random.random() < 0.5
            plan = plant.plans[flow] = []
            key, group = random.choice(["", "", "", "k"]), random.choice(["", "", "", "narrow"])
            for number, parents in enumerate(shape(random), 1):
                policy: Policy = "fail" if tame else random.choice(POLICIES)
                limits = record_header.JobLimits(at_once=2) if group else None
                most = random.choice([1, 0])
                record = record_header.head(1, DELIVERIES, key, group, limits, deliveries=most) + b'["work",[]]'
                undo = record_header.head(1, DELIVERIES) + b'["undo",[]]' if random.random() < 0.4 else b""
                delay, failing = random.choice([0, 0, 0, 700]), causes(random, number, parents)
                plan.append(FlowJob(record, parents, delay, policy, undo, causes=failing))
                id = node_id(flow, number)
                plant.made[id], plant.made[f"{id}u"] = Made(1, key, group, True, most), Made(1, lined=True)
            storing = flows.push(plant.queue, flow, plan, flow, WINDOW_MS)
            if random.random() < 0.1:
                yield next(storing)  # the producer stops after its first call, so the flow may be incomplete
            elif (yield from storing):
                plant.stored.append(flow)
                plant.acknowledged += [node_id(flow, number) for number in range(1, len(plan) + 1)]
            else:
                raise Broken(f"{flow} was stored at once, and its producer heard that it took too long")


def canceller(plant: FlowPlant) -> Actor:
    """Cancel a whole flow now and then, as its handle does."""
    random = plant.world.random
    for _ in range(random.choice([0, 0, 2, 4])):
        with suppress(LockworkError, Cancelled):
            yield Sleep(random.uniform(0, 4))
            if plant.stored:
                flow = random.choice(plant.stored[-3:])
                _, running = yield from flows.cancel(plant.queue, flow, WINDOW_MS)
                for id in running:
                    yield from control.cancel(plant.queue, id, "sim", WINDOW_MS)
