"""A whole run of a queue's lock, whose release enqueues a job in the same step; a function of the seed."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from locks.simulation.lock_actors import Players
from locks.simulation.lock_checks import LockChecker
from lockwork.errors import LockworkError, QueueFull
from lockwork.protocol.effects import Effect
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.locks.grants import Renewal, Request
from lockwork.protocol.queue.enqueue import release_and_push
from queues.simulation import queue_users as users
from queues.simulation.limit_queue_actors import little_room
from queues.simulation.limit_queue_checks import LimitChecker
from queues.simulation.queue_actors import Plant
from queues.simulation.queue_machines import judge, staff
from queues.simulation.queue_watch import QueueWatch
from simulator.faults import SECOND, Mix
from simulator.process import Actor, Process
from simulator.runs import RELEASED, finished, incidents
from simulator.server import Build, Command, Server
from simulator.world import Broken, Step, World

_NAME = "locks/release_and_push"
_PASS = "release_to_next(held_fence, deadline, head, tail)"
MUTANTS = (
    Build("an old grant may release", ((_NAME, "held_fence ~= fence or", ""),)),
    Build("a release without its job", ((_NAME, "push(FIRST, again) --", "--"),)),
    Build("a full queue lets it in", ((_NAME, "if no_room then return no_room end", ""),)),
    Build("a full queue releases all the same", ((_NAME, "return no_room", f"{_PASS} return no_room"),)),
    Build("the minimum does not end", ((_NAME, "now + at_least * 1000", "now + at_least * 100000"),)),
)  # fmt: skip


@dataclass
class Owners(Players):
    """Contenders for the locks of a queue that release them together with a job."""

    plant: Plant = field(kw_only=True)
    lost: set[str] = field(default_factory=set)
    """Jobs that must not be in the queue, because their owner's call was refused."""

    def key_of(self, name: str) -> str:
        """Return the key of a lock."""
        return self.plant.queue.lock(name)

    def give_back(self, asked: Request, fence: int, ticket: int = 0) -> Actor:
        """Release a grant, with a job or without."""
        random = self.world.random
        if random.random() < 0.7:
            grant, keep_ms = Renewal(asked.key, asked.owner, fence, 1), random.choice([0, 0, 0, 200])
            if (yield from self._push(grant, keep_ms)):
                return
        yield from super().give_back(asked, fence, ticket)

    def use_again(self, old: Renewal) -> Actor:
        """Renew or release a grant that is over, also with a job."""
        if self.world.random.random() < 0.5:
            yield from self._push(old, 0)
        else:
            yield from super().use_again(old)

    def _push(self, grant: Renewal, keep_ms: int) -> Generator[Effect, Any, bool]:
        """Release a grant with a job; return False if the queue is full."""
        job = users.new_job(self.plant)
        try:
            done = yield from release_and_push(self.plant.queue, grant, keep_ms, job)
        except QueueFull:
            self.lost.add(job.id)
            return False
        except LockworkError:
            return True  # the effect of the call is unknown
        if done:
            self.plant.acknowledged.append(job.id)
        else:
            self.lost.add(job.id)
        return True

    def holders(self) -> list[Process]:
        """The processes of contenders."""
        return [process for process in self.world.processes if process.alive and process.name.startswith("p")]


class LockJobsChecker(LimitChecker):
    """Checks the queue and its locks, and that a release and its job are atomic."""

    brings = (*LimitChecker.brings, _NAME)

    def __init__(self, world: World, plant: Plant, owners: Owners) -> None:
        super().__init__(world, plant)
        self.refused = owners.lost
        self._lock = LockChecker(world, owners)
        self._keys: list[str] = []

    def looks(self, script: str, keys: Sequence[str]) -> list[Command]:
        """Read the script's locks, if any, and the whole queue."""
        self._keys = [key for key in keys if ":lock:" in key]
        return [*self._lock.looks(script, self._keys), *super().looks(script, keys)]

    def applied(self, step: Step) -> None:
        """Check a step on the queue and on its lock."""
        own, before = 2 * len(self._keys), self.view
        super().applied(replace(step, seen=step.seen[own:]))
        if not self._keys:
            return
        key = self._keys[0]
        held = self._lock.held(key)
        known = replace(step, keys=self._keys, seen=step.seen[:own])
        if step.script == _NAME:
            known = replace(known, script="locks/release", args=step.args[:3])
        self._lock.applied(known)
        after = self._lock.held(key)
        if not held.owner and held.deadline > step.now and after.owner:
            raise Broken(f"{after} was granted, and the lock was to stay taken until {held.deadline}")
        if step.script == _NAME:
            id, mine = str(step.args[4]), (held.owner, held.fence) == (step.args[1], step.args[2])
            live = held.live(step.now) and mine
            self._check_both(step, id in before.places, id in self.view.places, live, live and held != after)
            keep = int(step.args[3]) * 1000
            if live and held != after and keep and (after.owner or after.deadline != step.now + keep):
                raise Broken(f"the lock was to stay taken for {keep} us more, and is {after} at {step.now}")

    def _check_both(self, step: Step, was: bool, is_: bool, live: bool, ended: bool) -> None:
        """Check that a release and its job took effect together.

        was, is_: the job existed before, and exists now. live: the grant was live before. ended: the grant is over now.
        """
        came = is_ and not was
        fits = {0: not was and not live, 1: was or live}.get(step.reply, False) if step.reply in (0, 1) else not was
        if came != ended or not fits or (isinstance(step.reply, list) and came) or (step.reply == 1 and not is_):
            raise Broken(f"both or neither: {step.args} -> {step.reply}; job came: {came}, grant ended: {ended}")

    def at_end(self) -> None:
        """Check that all jobs have ended, and that every remaining lock has an expiry."""
        super().at_end()
        self._lock.at_end()


def run(server: Server, seed: int, build: Build = RELEASED) -> World:
    """Contenders for a queue's lock, and the workers of their jobs; raises Broken."""
    faultless = seed % 5 == 0
    world = World(server, seed, build, Mix(slow=0.1) if faultless else None)
    plant = Plant(world, QueueKeys("sim", "q"))
    owners = Owners(world, plant=plant)
    checker = LockJobsChecker(world, plant, owners)
    world.checker = checker
    random = world.random
    rounds, born = random.randint(2, 5), 0

    def populate() -> None:
        nonlocal born
        process = world.process(f"p{born}")
        born += 1
        world.start(process, "engine", lambda _: owners.renewer(process), background=True)
        for number in range(random.randint(1, 3)):
            world.start(process, f"c{number}", lambda task: owners.contender(task, ["a"], rounds))

    def kill() -> None:
        if owners.holders():
            world.kill(random.choice(owners.holders()))
        world.after(random.randint(0, SECOND), populate)

    for _ in range(2):
        populate()
    office = world.process("office")
    world.start(office, "meddler", lambda _: owners.meddler(), background=True)
    world.start(office, "handler", lambda _: users.handler(plant))
    world.start(office, "limiter", lambda _: little_room(plant), background=True)
    staff(world, plant)
    if not faultless:
        incidents(world, kill, 15 * SECOND, owners.holders)
    judge(world, checker, QueueWatch(world, plant, checker, faultless=faultless))
    return finished(world, seed, 20, 200, checker.at_end)
