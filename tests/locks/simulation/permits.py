"""Semaphores and read-write locks in virtual time: their users, and whole runs."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from locks.simulation.lock_actors import Forgotten, Players
from locks.simulation.permit_checks import PermitChecker
from lockwork.errors import LockTimeout, LockworkError
from lockwork.protocol import keys
from lockwork.protocol.effects import Clock
from lockwork.protocol.locks import grants
from lockwork.protocol.locks.grants import Granted, Renewal, Request
from lockwork.protocol.locks.leases import Lease
from lockwork.protocol.permits import permits
from simulator.faults import SECOND
from simulator.load import crowd
from simulator.process import Actor, Cancelled, Process, Sleep, Task
from simulator.runs import RELEASED, finished, incidents
from simulator.server import Build, Server
from simulator.world import World


@dataclass
class Belief:
    """Units that a holder relies on."""

    task: Task
    lease: Lease
    fence: int
    units: int

    def held(self, true: int) -> bool:
        """Return True if the holder may rely on the units at this true time."""
        process = self.task.process
        return process.alive and not self.lease.lost and self.lease.deadline > process.clock(true)


@dataclass
class Takers(Players):
    """Tasks that take units of one semaphore or read-write lock."""

    key: str = ""
    capacity: int = 0
    sizes: Sequence[int] = (1,)
    believed: list[Belief] = field(default_factory=list)
    asking: dict[str, tuple[Task, int]] = field(default_factory=dict)
    """Waiting tasks and their number of units, by request."""

    def taker(self, task: Task, rounds: int) -> Actor:
        """Acquire units, hold and release them, several times."""
        random = self.world.random
        for _ in range(rounds):
            try:
                yield Sleep(random.choice([0.0, random.uniform(0, 0.5), random.uniform(0, 3)]))
                yield from self._take(task)
            except Forgotten:
                self.world.note(task.name, "ends without releasing")
                return
            except (Cancelled, LockworkError) as error:
                self.world.note(task.name, f"gives up: {type(error).__name__}")

    def _take(self, task: Task) -> Actor:
        random = self.world.random
        wait = random.choice([None, None, None, 0, random.uniform(0.1, 5)])
        lease_ms, renewed = random.choice([1000, 2000, 4000, 15000]), random.random() < 0.7
        units = random.choice(self.sizes)
        owner, request = f"{task.process.name}:{task.name}", f"r{next(self.numbers)}"
        asked = Request(
            self.key, "x", owner, request, task.process.channel, lease_ms, renewed,
            scripts=permits.SCRIPTS, extra=(units, self.capacity),
        )  # fmt: skip
        if wait != 0:
            self.asking[request] = task, units
        try:
            granted = yield from grants.acquire(asked, wait)
        except LockTimeout:
            return
        finally:
            self.asking.pop(request, None)
        yield from self._hold(task, asked, granted, units)

    def _hold(self, task: Task, asked: Request, granted: Granted, units: int) -> Actor:
        random = self.world.random
        renewal = Renewal(asked.key, asked.owner, granted.fence, asked.lease_ms, permits.SCRIPTS)
        lease = Lease(renewal, granted, (yield Clock()), renewed=asked.renewed, on_lost=lambda: None)
        self.enters(task, lease)
        belief = Belief(task, lease, granted.fence, units)
        self.believed.append(belief)
        task.process.book.add(lease)
        task.process.mail.deliver("engine", "ring")
        with suppress(Cancelled, LockworkError):
            yield Sleep(random.choice([0.0, random.uniform(0, 0.2), random.uniform(0, 5)]))
            if units > 1 and random.random() < 0.5:
                belief.units = 1  # from now on, whether or not the call arrives
                yield from permits.downgrade(asked.key, asked.owner, granted.fence, 1)
                yield Sleep(random.uniform(0, 2))
        if self.forgets(task, lease):
            raise Forgotten
        self.believed.remove(belief)
        task.process.book.remove(lease)
        lease.lost = True
        with suppress(LockworkError):
            yield from grants.release(asked.key, asked.owner, granted.fence, scripts=permits.SCRIPTS)
        self.ended.append(renewal)

    def meddler(self) -> Actor:
        """Use ended grants, or a live grant's fence as a stranger."""
        random = self.world.random
        while not self.world.calm:
            yield Sleep(random.uniform(0, 2))
            owner, fence = "stranger", 0
            if self.believed and random.random() < 0.4:
                fence = random.choice(self.believed).fence
            elif self.ended:
                old = random.choice(self.ended[-8:])
                owner, fence = old.owner, old.fence
            with suppress(LockworkError):
                what = random.randrange(3)
                if what == 0:
                    yield from grants.renew([Renewal(self.key, owner, fence, 9000, permits.SCRIPTS)], patience=0.0)
                elif what == 1:
                    yield from grants.release(self.key, owner, fence, scripts=permits.SCRIPTS)
                else:
                    yield from permits.downgrade(self.key, owner, fence, 1)


def run(server: Server, seed: int, build: Build = RELEASED) -> World:
    """Takers of three processes on a semaphore, or readers and writers; raises Broken."""
    world = World(server, seed, build)
    if world.random.random() < 0.5:
        capacity = world.random.randint(1, 4)
        takers = Takers(world, key=keys.semaphore("sim", "x"), capacity=capacity, sizes=range(1, capacity + 1))
    else:
        takers = Takers(world, key=keys.rwlock("sim", "x"), capacity=permits.ALL, sizes=(1, 1, permits.ALL))
    checker = PermitChecker(world, takers)
    world.checker = checker
    rounds = world.random.randint(2, 5)

    def populate(process: Process) -> None:
        world.start(process, "engine", lambda task: takers.renewer(process), background=True)
        for number in range(world.random.randint(1, 4)):
            world.start(process, f"c{number}", lambda task: takers.taker(task, rounds))

    kill = crowd(world, populate)
    world.start(world.process("m"), "meddler", lambda _: takers.meddler(), background=True)
    incidents(world, kill, 20 * SECOND)
    return finished(world, seed, 30, 400, checker.at_end)
