"""A run of a queue whose workers are often blocked: a thread of each returns jobs that the worker has not read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from lockwork.errors import LockworkError
from lockwork.protocol.effects import Protocol
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import leases, sessions
from lockwork.protocol.queue.leases import Leased, Outcome
from lockwork.worker.execution.deliveries import Deliveries
from lockwork.worker.execution.unbegun_jobs import return_unbegun
from mutants import Patch
from queues.simulation import queue_users as users
from queues.simulation.queue_actors import WINDOW_MS, Child, Plant
from queues.simulation.queue_checks import QueueChecker
from queues.simulation.queue_machines import judge, staff
from queues.simulation.queue_watch import QueueWatch
from simulator.faults import SECOND, Mix
from simulator.process import Actor, Sleep, Task
from simulator.runs import RELEASED, finished
from simulator.server import Build, Server
from simulator.world import Broken, Step, World

_THREAD = "/watch the loop"
_BLOCKED = 0.3
"""The thread returns jobs after this many seconds of a block."""


@dataclass
class BlockedPlant(Plant):
    """Children that read an answer or an offer late, because a job blocks them; their other jobs continue."""

    begun: set[tuple[str, str]] = field(default_factory=set)
    """Jobs that began, and their tokens."""
    returned: set[tuple[str, str]] = field(default_factory=set)
    """Jobs that a thread returned, and their tokens."""

    def reading(self, child: Child) -> Actor:
        if child.isolates or self.world.random.random() < 0.6:
            return
        seconds = self.world.random.choice([0.1, 0.5, 3.0]) * self.world.random.random()
        child.blocked = self.world.now, self.world.now + int(seconds * SECOND)
        yield Sleep(seconds)

    def begin(self, child: Child, leased: Sequence[Leased]) -> None:
        super().begin(child, leased)
        for job in child.held.values():
            delivery = job.id, job.token.decode()
            if delivery in self.returned:
                raise Broken(f"Q2: {child.session} begins {job.id} by {job.token!r}, and has returned it")
            self.begun.add(delivery)

    def listener(self, child: Child) -> Callable[[Task], Actor]:
        if not child.isolates:
            self.world.start(child.process, _THREAD.strip("/"), lambda _: self._watch_loop(child), background=True)
        return super().listener(child)

    def _watch_loop(self, child: Child) -> Actor:
        """Return unread jobs once in each block that takes long; the block may end meanwhile."""
        seen = 0
        while True:
            yield Sleep(0.05)
            since, until = child.blocked
            if since > seen and since + _BLOCKED * SECOND < self.world.now < until:
                seen = since
                yield from self._return(child, until)

    def _return(self, child: Child, until: int) -> Actor:
        jobs: list[Leased] = []
        deliveries = child.deliveries[self.queue.name]
        returning, done = True, False
        while returning:
            unbegun = return_unbegun(
                self.queue, child.session, child.process.channel, deliveries, jobs, WINDOW_MS, awake=True
            )
            try:
                yield from sessions.within(1.0, unbegun)
                done = True
            except LockworkError:
                yield Sleep(0.1)
            child.process.mail.deliver(self.queue.jobs, "look")
            returning = not done and self.world.now < until
        if not done:
            for job in jobs:
                self.world.start(child.process, "settle", self._settler(child, job), background=True)

    def _settler(self, child: Child, job: Leased) -> Callable[[Task], Actor]:
        return lambda _: self._settle(child, job)

    def _settle(self, child: Child, job: Leased) -> Actor:
        settled = False
        while not settled:
            try:
                yield from leases.settle(self.queue, child.session, [Outcome(job.id, job.token, "n")], WINDOW_MS)
                settled = True
            except LockworkError:
                yield Sleep(0.2)


class BlockedChecker(QueueChecker):
    """Also judges that no delivery both begins and returns."""

    def __init__(self, world: World, plant: BlockedPlant) -> None:
        super().__init__(world, plant)
        self._blocked = plant

    def applied(self, step: Step) -> None:
        super().applied(step)
        if step.script == "queue/settle" and step.task.name.endswith((_THREAD, "/settle")):
            plant, args = self._blocked, step.args
            for at, settled in zip(range(2, len(args), 5), step.reply, strict=True):
                token = args[at + 1]
                delivery = str(args[at]), token.decode() if isinstance(token, bytes) else str(token)
                if settled == 1:
                    plant.returned.add(delivery)
                if settled == 1 and delivery in plant.begun:
                    raise Broken(f"Q2: {step.task.name} returned {delivery}, which has begun")


def run(server: Server, seed: int, build: Build = RELEASED) -> World:
    """Producers, and workers that are often blocked; raises Broken. In a third of the runs nothing else fails."""
    faultless = seed % 3 == 0
    world = World(server, seed, build, Mix(slow=0.3) if faultless else None)
    plant = BlockedPlant(world, QueueKeys("sim", "q"))
    checker = BlockedChecker(world, plant)
    watch = QueueWatch(world, plant, checker, faultless=faultless)
    world.checker = checker
    shop, office = world.process("shop"), world.process("office")
    for number in range(2):
        world.start(shop, f"producer{number}", lambda _: users.producer(plant, world.random.randint(3, 6)))
    world.start(office, "caller", lambda task: users.caller(plant, watch, task))
    world.start(office, "handler", lambda _: users.handler(plant))
    staff(world, plant)
    judge(world, checker, watch)
    return finished(world, seed, 20, 60, checker.at_end)


def _reads_all(deliveries: Deliveries, jobs: list[Leased]) -> list[Leased]:
    deliveries.last = jobs[-1].fence if jobs else deliveries.last
    return jobs


def _takes_read_jobs(deliveries: Deliveries, leased: Iterable[tuple[str, bytes]]) -> list[Leased]:
    last, deliveries.last = deliveries.last, 0
    try:
        return _take_unread(deliveries, leased)
    finally:
        deliveries.last = last


def _keeps_wakeup(*_: object, **__: object) -> Protocol[bool]:
    yield from ()
    return False


_take_unread = Deliveries.take_unread
MUTANTS: Mapping[str, Patch] = {
    "returned jobs run": (Deliveries, "read", _reads_all),
    "running jobs are returned": (Deliveries, "take_unread", _takes_read_jobs),
    "unread jobs stay leased": (Deliveries, "take_unread", lambda *_: []),
    "wake-ups are not forwarded": (sessions, "forward_wakeup", _keeps_wakeup),
}
