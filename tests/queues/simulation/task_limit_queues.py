"""A run of a queue whose tasks have changing limits, while workers die and calls are lost; a function of the seed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain

from lockwork.errors import LockworkError
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import enqueue, leases, record_header, task_limits
from lockwork.protocol.queue.enqueue import NewJob
from lockwork.protocol.queue.leases import RECHECK
from lockwork.protocol.queue.record_header import JobLimits
from lockwork.protocol.queue.task_limits import LimitedTask, TaskLimits
from queues.simulation import queue_users as users
from queues.simulation.queue_actors import Plant
from queues.simulation.queue_machines import judge, staff
from queues.simulation.queue_view import DELIVERIES, Made
from queues.simulation.task_limit_checks import TaskLimitChecker
from simulator.faults import SECOND, Mix
from simulator.process import Actor, Cancelled, Process, Sleep, Task
from simulator.runs import RELEASED, finished
from simulator.server import Build, Server
from simulator.world import Broken, World

_CHOICES = {
    "one": (TaskLimits(at_once=1), TaskLimits(at_once=2)),
    "slow": (TaskLimits(jobs=3, per_ms=1000), TaskLimits(at_once=2, jobs=5, per_ms=1000)),
    "frail": (TaskLimits(failures=2, window_ms=3000, pause_ms=1000), TaskLimits(2, 0, 0, 1, 1000, 500)),
}
"""Limits that each task has, one after the other. A fourth task, "free", has none."""
_GROUP = JobLimits(at_once=1)
_PROMPT = 2 * SECOND
_PATIENT = int((RECHECK + 2) * SECOND)
_PART = "queue/parts/task_limits"
MUTANTS = (
    Build("one job more than at once", ((_PART, "state.most - state.running", "state.most + 1 - state.running"),)),
    Build("a pause without a bound", ((_PART, "state.paused, state.changed = latest_ms, true", "local _"),)),
    Build("a rate without a bound", ((_PART, "state.unused_at, state.changed = latest_us, true", "local _"),)),
    Build("states are not stored", ((_PART, "elseif state.changed then", "elseif false then"),)),
)


@dataclass
class LimitPlant(Plant):
    """Workers that declare the limits of their tasks."""

    tasks: dict[str, str] = field(default_factory=dict)
    limits: dict[str, TaskLimits] = field(default_factory=lambda: {task: each[0] for task, each in _CHOICES.items()})
    listed: dict[str, str] = field(default_factory=dict)
    """The tasks with limits, as each supervisor's last heartbeat read them."""

    def machine(self, name: str, children: int) -> list[Process]:
        processes = super().machine(name, children)
        for supervisor in processes:
            self.world.start(supervisor, "declare", self._declarer(supervisor), background=True)
        return processes

    def beaten(self, supervisor: Process, answer: leases.Beat) -> None:
        self.listed[supervisor.name] = answer.limited

    def _declarer(self, supervisor: Process) -> Callable[[Task], Actor]:
        return lambda _: self._declare(supervisor)

    def _declare(self, supervisor: Process) -> Actor:
        joins = True
        while True:
            own = {task: LimitedTask(limits, (task,)) for task, limits in self.limits.items()}
            wanted = task_limits.to_declare(own, own, self.listed.get(supervisor.name, ""), joins=joins)
            with suppress(LockworkError):
                if wanted:
                    yield from task_limits.declare(self.queue, wanted)
                joins = False
            yield Sleep(0.5)


def _producer(plant: LimitPlant, rounds: int) -> Actor:
    random = plant.world.random
    for _ in range(rounds):
        with suppress(LockworkError, Cancelled):
            yield Sleep(random.uniform(0, 3))
            yield from enqueue.push(plant.queue, [_new_job(plant) for _ in range(random.randint(1, 5))])


def _new_job(plant: LimitPlant) -> NewJob:
    random, id = plant.world.random, f"j{next(plant.numbers):04}"
    task, group = random.choice([*_CHOICES, "free"]), random.choice(["", "", "", "group"])
    made = plant.made[id] = Made(random.randint(0, 2), group=group)
    plant.tasks[id] = task
    record = record_header.head(made.level, DELIVERIES, "", group, _GROUP if group else None)
    return NewJob(id, record + f'["{task}",[]]'.encode(), random.choice([0, 0, 0, random.randint(1, 3000)]))


def _manager(plant: LimitPlant, turns: int) -> Actor:
    """Change the limits of a task, as a deployment does, or end its pause."""
    random = plant.world.random
    for _ in range(turns):
        yield Sleep(random.uniform(0, 5))
        task = random.choice([*_CHOICES])
        with suppress(LockworkError):
            if random.random() < 0.3:
                yield from task_limits.resume(plant.queue, task)
            else:
                plant.limits[task] = random.choice(_CHOICES[task])
                yield from task_limits.declare(plant.queue, {task: LimitedTask(plant.limits[task], (task,))})


@dataclass
class _Watch:
    """Checks that no job waits while its task allows it and a worker has a free place."""

    world: World
    plant: LimitPlant
    checker: TaskLimitChecker
    faultless: bool

    def look(self) -> None:
        now, bound = self.world.now, _PROMPT if self.faultless else _PATIENT
        idles = any(
            child.free_since is not None
            and now - max(child.free_since, child.began) > bound
            and child.fetcher.undisturbed_since(now - bound)
            and not child.over
            for child in chain.from_iterable(self.plant.crews)
        )
        if not idles or now - self.world.stepped < bound:
            return
        for id in self.checker.places:
            since = None if self.plant.made[id].group else self.checker.startable_since(id)
            if since is not None and now - since > bound:
                raise Broken(f"T4: {id} of {self.plant.tasks[id]} may start since {(now - since) / SECOND:.2f} s")


def run(server: Server, seed: int, build: Build = RELEASED) -> World:
    """Producers, workers, and a manager; raises Broken. In a third of the runs nothing fails."""
    faultless = seed % 3 == 0
    world = World(server, seed, build, Mix(slow=0.1) if faultless else None)
    plant = LimitPlant(world, QueueKeys("sim", "q"))
    checker = TaskLimitChecker(world, plant, [*_CHOICES], plant.tasks)
    world.checker = checker
    random = world.random
    shop, office = world.process("shop"), world.process("office")
    for number in range(2):
        world.start(shop, f"producer{number}", lambda _: _producer(plant, random.randint(2, 5)))
    world.start(office, "manager", lambda _: _manager(plant, random.randint(0, 4)), background=True)
    world.start(office, "handler", lambda _: users.handler(plant))
    world.start(office, "undertaker", lambda _: users.undertaker(plant))
    staff(world, plant)
    if not faultless and random.random() < 0.3:
        checker.exact = False
        ahead = random.randint(0, 3 * 3600 * SECOND)
        world.after(random.randint(0, 8 * SECOND), world.move_clock, ahead)
        world.after(random.randint(8 * SECOND, 15 * SECOND), world.move_clock, -ahead)
    judge(world, checker, _Watch(world, plant, checker, faultless))
    return finished(world, seed, 20, 90, checker.at_end)
