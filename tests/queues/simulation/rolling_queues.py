"""A run of a queue during a deployment: machines of two versions; the old one does not know all tasks."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import suppress
from itertools import chain
from typing import Any

from lockwork.errors import LockworkError
from lockwork.protocol.effects import Effect
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import enqueue, leases
from lockwork.protocol.queue.enqueue import NewJob
from lockwork.protocol.queue.leases import Batch, Leased, Outcome
from queues.simulation import queue_users as users
from queues.simulation.queue_actors import Child, Plant
from queues.simulation.queue_checks import QueueChecker
from queues.simulation.queue_machines import judge, staff
from queues.simulation.queue_watch import QueueWatch
from simulator.faults import SECOND, Mix
from simulator.process import Actor, Cancelled, Sleep
from simulator.runs import RELEASED, finished
from simulator.server import Build, Server
from simulator.world import Broken, World

_CALM = 20
"""The faults end after this many seconds."""
_SOON = int((leases.RECHECK + 1) * SECOND)
"""Maximum time, us, that a job stays parked while a worker that knows its task has a free place."""
_NEW = b'["new",[]]'


class RollingPlant(Plant):
    """Children of machines with even numbers, and of all that start late, know the new task."""

    def knows(self, session: str) -> bool:
        """Return True if a worker process has the new version."""
        machine = session.split("/", maxsplit=1)[0]
        return int(machine[1:]) % 2 == 0 or int(machine[1:]) > 6

    def claims(self, child: Child) -> str:
        known = "work v new v" if self.knows(child.session) else "work v"
        return known if child.parked else ""

    def claims_next(self, child: Child, batch: Batch) -> bool:
        before, child.parked = child.parked, batch.parked
        return batch.parked and not before

    def ending(self, child: Child, job: Leased) -> Generator[Effect | Sleep, Any, Outcome]:
        if job.record.endswith(_NEW) and job.id not in child.stopping and not self.knows(child.session):
            return leases.parked(job, "new", known=self.world.random.random() < 0.2)
        return (yield from super().ending(child, job))


class RollingWatch(QueueWatch):
    """Also judges that a worker takes the parked jobs whose task it knows."""

    def look(self) -> None:
        super().look()
        now, plant = self._world.now, self._plant
        assert isinstance(plant, RollingPlant)
        for child in chain.from_iterable(plant.crews):
            idle = child.free_since is not None and now - max(child.free_since, child.began) > _SOON
            if not idle or child.over or child.isolates or not plant.knows(child.session):
                continue
            if not child.fetcher.undisturbed_since(now - _SOON):
                continue
            for id, task in self._checker.view.parked.items():
                if plant.made[id].plain and now - self._checker.since[id] > _SOON:
                    raise Broken(f"Q11: {child.session} knows {task}, has a free place, and {id} stays parked")


def producer(plant: Plant, rounds: int) -> Actor:
    """Enqueue jobs of both tasks."""
    random = plant.world.random
    for _ in range(rounds):
        with suppress(LockworkError, Cancelled):
            yield Sleep(random.uniform(0, 3))
            new = [users.new_job(plant) for _ in range(random.randint(1, 4))]
            new = [job if random.random() < 0.4 else _renamed(job) for job in new]
            yield from enqueue.push(plant.queue, new)
            plant.acknowledged += [job.id for job in new]


def _renamed(job: NewJob) -> NewJob:
    return NewJob(job.id, job.record.partition(b";")[0] + b";" + _NEW, job.delay_ms)


def run(server: Server, seed: int, build: Build = RELEASED) -> World:
    """Producers, and workers of two versions; raises Broken. In a third of the runs nothing fails."""
    faultless = seed % 3 == 0
    world = World(server, seed, build, Mix(slow=0.1) if faultless else None)
    plant = RollingPlant(world, QueueKeys("sim", "q"))
    checker = QueueChecker(world, plant)
    watch = RollingWatch(world, plant, checker, faultless=faultless)
    world.checker = checker
    random = world.random
    shop, office = world.process("shop"), world.process("office")
    for number in range(2):
        world.start(shop, f"producer{number}", lambda _: producer(plant, random.randint(2, 6)))
    world.start(office, "caller", lambda task: users.caller(plant, watch, task))
    world.start(office, "handler", lambda _: users.handler(plant))
    world.start(office, "undertaker", lambda _: users.undertaker(plant))
    staff(world, plant)
    judge(world, checker, watch)

    def end_deployment() -> None:
        plant.machine("m100", 1)  # of the new version

    world.after(_CALM * SECOND, end_deployment)
    return finished(world, seed, _CALM, 60, checker.at_end)
