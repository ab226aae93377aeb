"""Users of flows across queues: workers of several queues, which relay messages, and planners and operators."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from flows.simulation.flow_queue_actors import POLICIES, FlowPlant, causes, shape
from lockwork.errors import LockworkError
from lockwork.ids import node_id
from lockwork.protocol.effects import Call, Protocol
from lockwork.protocol.flows import flows
from lockwork.protocol.flows.flows import FlowJob, Policy
from lockwork.protocol.flows.relay import relay
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import browse, record_header
from lockwork.protocol.queue import job_control as control
from lockwork.protocol.queue.leases import Batch, Beat
from queues.simulation.partition_actors import PartitionedPlant
from queues.simulation.queue_actors import WINDOW_MS, Child
from queues.simulation.queue_view import DELIVERIES, Made
from simulator.process import Actor, Cancelled, Process, Sleep, Task
from simulator.world import Broken

QUEUES = ("a", "b", "c")


@dataclass
class CrossDesk(FlowPlant):
    """The users of one queue."""

    homes: dict[str, str] = field(default_factory=dict)
    """The home of each flow."""
    faultless: bool = False

    def fetched(self, child: Child, batch: Batch) -> None:
        """Relay messages that a fetch has found."""
        if batch.flow_messages:
            self._relay(child.process)

    def beaten(self, supervisor: Process, answer: Beat) -> None:
        """Relay messages that a heartbeat has found."""
        if answer.flow_messages:
            self._relay(supervisor)

    def fits(self, id: str, blob: bytes) -> bool:
        """Return True if this is the recorded outcome of a job; its flow may be gone after a step of the clock."""
        return super().fits(id, blob) or (not blob and self.world.moved_forward)

    def _relay(self, process: Process) -> None:
        self.world.start(process, f"relay {self.queue.name}", lambda _: self.relaying(), background=True)

    def relaying(self) -> Actor:
        """Relay the messages of the queue. A relay may stop halfway, or deliver a batch again, long after the first."""
        random, calls = self.world.random, list[Call]()
        run = relay(self.queue, WINDOW_MS, request=f"r{next(self.numbers)}")
        stop = random.choice([0, 0, 0, 0, 1, 2, 3]) if not self.faultless else 0
        reply: Any = None
        while True:
            try:
                effect = run.throw(reply) if isinstance(reply, LockworkError) else run.send(reply)
            except StopIteration:
                break
            if isinstance(effect, Call) and effect.script.name == "flows/receive":
                calls.append(effect)
            try:
                reply = yield effect
            except LockworkError as error:
                reply = error
            stop -= 1
            if stop == 0:
                break
        if calls and not self.faultless and random.random() < 0.3:
            yield Sleep(random.uniform(0, 4))
            with suppress(LockworkError):
                yield random.choice(calls)

    def queue_of(self, id: str) -> str:
        """Return the queue of a job, or of a compensation, of a flow."""
        flow, number = self.member(id) or ("", 0)
        job = self.plans[flow][number - 1]
        return (job.undo_queue if id.endswith("u") else job.queue) or self.homes[flow]


@dataclass
class CrossPlant(PartitionedPlant):
    """The users of all queues. Flows and jobs are shared."""

    faultless: bool = False

    def __post_init__(self) -> None:
        first = CrossDesk(
            self.world, QueueKeys("sim", QUEUES[0]), self.sessions, self.gone, self.died, self.watchers,
            crews=self.crews, made=self.made, numbers=self.numbers, faultless=self.faultless,
        )  # fmt: skip
        self.crossing: list[CrossDesk] = [first]
        for name in QUEUES[1:]:
            desk = CrossDesk(
                self.world, QueueKeys("sim", name), self.sessions, self.gone, self.died, self.watchers,
                crews=self.crews, made=self.made, numbers=self.numbers, plans=first.plans, stored=first.stored,
                ends=first.ends, homes=first.homes, faultless=self.faultless,
            )  # fmt: skip
            self.crossing.append(desk)
        self.parts = self.crossing  # type: ignore[assignment]

    def desk(self, name: str) -> CrossDesk:
        """Return the users of a queue."""
        return self.crossing[QUEUES.index(name)]


def planner(plant: CrossPlant, name: str, rounds: int) -> Actor:
    """Enqueue flows whose jobs are in several queues."""
    random, first = plant.world.random, plant.crossing[0]
    for turn in range(rounds):
        with suppress(LockworkError, Cancelled):
            yield Sleep(random.uniform(0, 4))
            flow, tame, home = f"{name}{turn}", random.random() < 0.5, random.choice(plant.crossing)
            others = ["", *(desk.queue.name for desk in plant.crossing if desk is not home)]
            plan = first.plans[flow] = []
            first.homes[flow] = home.queue.name
            key = random.choice(["", "", "k"])
            for number, parents in enumerate(shape(random), 1):
                policy: Policy = "fail" if tame else random.choice(POLICIES)
                record = record_header.head(1, DELIVERIES, key) + b'["work",[]]'
                undo = record_header.head(1, DELIVERIES) + b'["undo",[]]' if random.random() < 0.4 else b""
                delay, queue = random.choice([0, 0, 0, 700]), random.choice(others) if number > 1 else ""
                undo_queue = random.choice(others) if undo else ""
                failing = causes(random, number, parents)
                plan.append(FlowJob(record, parents, delay, policy, undo, queue, undo_queue, failing))
                id = node_id(flow, number)
                plant.made[id], plant.made[f"{id}u"] = Made(1, key, lined=True), Made(1, lined=True)
            storing: Protocol[bool] = flows.push(home.queue, flow, plan, flow, WINDOW_MS)
            stops = random.random() < 0.15
            stored = yield from (_partly(storing, random.randint(1, 4)) if stops else storing)
            if stored is None:
                continue
            if stored:
                first.stored.append(flow)
                for number in range(1, len(plan) + 1):
                    id = node_id(flow, number)
                    plant.desk(first.queue_of(id)).acknowledged.append(id)
            else:
                raise Broken(f"{flow} was stored at once, and its producer was told that it took too long")


def _partly(storing: Protocol[bool], calls: int) -> Protocol[bool | None]:
    """Let a producer stop after some calls, so that the flow may be incomplete; return None then."""
    try:
        effect = next(storing)
        for _ in range(calls):
            effect = storing.send((yield effect))
    except StopIteration as done:
        stored: bool = done.value
        return stored
    return None


def canceller(plant: CrossPlant) -> Actor:
    """Cancel whole flows, as their handles do, through any of their queues."""
    random, first = plant.world.random, plant.crossing[0]
    for number in range(random.choice([0, 0, 2, 4])):
        with suppress(LockworkError, Cancelled):
            yield Sleep(random.uniform(0, 4))
            if first.stored:
                flow = random.choice(first.stored[-3:])
                jobs = first.plans[flow]
                name = random.choice([job.queue for job in jobs]) or first.homes[flow]
                yield from flows.cancel(QueueKeys("sim", name), flow, WINDOW_MS, request=f"{flow}/c{number}")


def handler(desk: CrossDesk) -> Actor:
    """Cancel, revive and delete jobs of one queue, and clear it."""
    random = desk.world.random
    for number in range(random.choice([0, 0, 3, 6])):
        with suppress(LockworkError, Cancelled):
            yield Sleep(random.uniform(0, 3))
            if not desk.acknowledged:
                continue
            id, what = random.choice(desk.acknowledged[-10:]), random.choice("ccrrdx")
            if what == "c":
                yield from control.cancel(desk.queue, id, "sim", WINDOW_MS)
            elif what == "r":
                yield from control.revive(desk.queue, id)
            elif what == "d":
                yield from control.delete(desk.queue, id, WINDOW_MS)
            elif random.random() < 0.3:
                yield from browse.clear(desk.queue, f"x{desk.queue.name}{number}", WINDOW_MS)


def waiter(plant: CrossPlant, told: Callable[[str, flows.FlowDetails | None], None]) -> Callable[[Task], Actor]:
    """Return the actor that waits for the ends of flows, through any of their queues."""
    random, first = plant.world.random, plant.crossing[0]

    def wait(task: Task) -> Actor:
        for _ in itertools.repeat(None, 4):
            with suppress(LockworkError, Cancelled):
                yield Sleep(random.uniform(0, 4))
                if first.stored:
                    flow = random.choice(first.stored)
                    name = random.choice([job.queue for job in first.plans[flow]]) or first.homes[flow]
                    timeout = random.uniform(0, 12)
                    told(flow, (yield from flows.ended(QueueKeys("sim", name), flow, task.process.channel, timeout)))

    return wait
