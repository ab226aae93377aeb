"""Users of locks: contenders that wait, hold, release and give up, and each process's renewer."""

from __future__ import annotations

import itertools
from contextlib import suppress
from dataclasses import dataclass, field

from msgspec.structs import replace

from lockwork.errors import LockTimeout, LockworkError
from lockwork.protocol import keys
from lockwork.protocol.effects import Clock, Park
from lockwork.protocol.locks import grants
from lockwork.protocol.locks.grants import Renewal, Request
from lockwork.protocol.locks.leases import Lease
from simulator.process import NEVER, Actor, Cancelled, Process, Sleep, Task
from simulator.world import Broken, World

_LONG = 3600.0
_FORGETS = 0.05
"""Probability that an owner ends without releasing its grant."""


class Forgotten(Exception):
    """Ends an owner that does not release its grant."""


class TaskHolder:
    """The holder of a lease, for the lease book: gone when its task is over."""

    def __init__(self, world: World, task: Task) -> None:
        self._world = world
        self._task = task
        self.abandoned: bool = False

    def owner_gone(self) -> bool:
        """Return True if the task is over."""
        return self._task.done

    def notify_abandoned(self) -> None:
        """Note that the lease is not renewed any more."""
        self.abandoned = True
        self._world.note(self._task.name, "has ended: its lease is not renewed any more")


@dataclass
class Belief:
    """A grant as its holder sees it."""

    task: Task
    lease: Lease
    fence: int

    def held(self, true: int) -> bool:
        """Return True if the holder may rely on the grant at this true time."""
        process = self.task.process
        return process.alive and not self.lease.lost and self.lease.deadline > process.clock(true)


@dataclass
class Players:
    """The contenders of a run: their waiting requests, and the grants that they rely on."""

    world: World
    waiting: dict[str, dict[Task, Request]] = field(default_factory=dict)
    beliefs: dict[str, list[Belief]] = field(default_factory=dict)
    ended: list[Renewal] = field(default_factory=list)
    """Grants that their holders have released or lost."""
    given: dict[tuple[str, str, int], int] = field(default_factory=dict)
    """Latest end (true time, us) of every grant that the server made, by key, owner and fence."""
    numbers: itertools.count[int] = field(default_factory=itertools.count)

    def key_of(self, name: str) -> str:
        """Return the key of a lock."""
        return keys.lock("sim", name)

    def renewer(self, process: Process) -> Actor:
        """Renew the process's leases, as the engine does."""
        book = process.book
        while True:
            due = book.due((yield Clock()))
            if due:
                try:
                    answer = yield from grants.renew([lease.wish for lease in due], patience=0.0)
                except LockworkError:
                    book.postponed(due, (yield Clock()))
                else:
                    book.renewed(due, answer, (yield Clock()))
            now = yield Clock()
            upcoming = book.next_event()
            yield Park("engine", now + _LONG if upcoming is None else upcoming)

    def forgets(self, task: Task, lease: Lease) -> bool:
        """Return True if the task shall end without a release. The lease's holder lets the book notice that."""
        if self.world.build.checks_owners:
            lease.holder = TaskHolder(self.world, task)
        return self.world.forgetting.random() < _FORGETS

    def enters(self, task: Task, lease: Lease) -> None:
        """Check a task that begins to rely on a grant; raises Broken if the server made none, or a shorter one."""
        renewal = lease.renewal
        lasts = self.given.get((renewal.key, renewal.owner, renewal.fence))
        if lasts is None:
            raise Broken(f"L1, L8: {task.name} enters with fence {renewal.fence}, which nobody has given to it")
        if self.world.stepped == NEVER and lease.deadline > task.process.clock(lasts) + 1e-6:
            raise Broken(f"L5: {task.name} counts on fence {renewal.fence} for longer than the server")

    def contender(self, task: Task, names: list[str], rounds: int) -> Actor:
        """Acquire one of the locks, hold it and release it, several times."""
        random = self.world.random
        for _ in range(rounds):
            try:
                yield Sleep(random.choice([0.0, random.uniform(0, 0.5), random.uniform(0, 3)]))
                yield from self._turn(task, random.choice(names))
            except Forgotten:
                self.world.note(task.name, "ends without releasing")
                return
            except (Cancelled, LockworkError) as error:
                self.world.note(task.name, f"gives up: {type(error).__name__}")

    def _turn(self, task: Task, name: str) -> Actor:
        random = self.world.random
        wait = random.choice([None, None, None, 0, random.uniform(0.1, 5)])
        lease_ms, renewed = random.choice([1000, 2000, 4000, 15000]), random.random() < 0.7
        number = next(self.numbers)
        channel, subscribed = task.process.channel, task.process.listens and number % 3 > 0
        asked = Request(
            self.key_of(name), name, task.name, f"r{number}", channel, lease_ms, renewed, subscribed=subscribed
        )
        waiting = self.waiting.setdefault(asked.key, {})
        waiting[task] = asked
        try:
            granted = yield from grants.acquire(asked, wait)
        except LockTimeout:
            return
        finally:
            del waiting[task]
        renewal = Renewal(asked.key, asked.owner, granted.fence, lease_ms)
        lease = Lease(renewal, granted, (yield Clock()), renewed=renewed, on_lost=lambda: None)
        self.enters(task, lease)
        belief = Belief(task, lease, granted.fence)
        self.beliefs.setdefault(asked.key, []).append(belief)
        task.process.book.add(lease)
        task.process.mail.deliver("engine", "ring")
        with suppress(Cancelled):
            yield Sleep(random.choice([0.0, random.uniform(0, 0.2), random.uniform(0, 5)]))
        if self.forgets(task, lease):
            raise Forgotten
        self.beliefs[asked.key].remove(belief)
        task.process.book.remove(lease)
        lease.lost = True
        yield from self.give_back(asked, granted.fence, granted.ticket if number % 4 else 0)
        self.ended.append(renewal)

    def meddler(self) -> Actor:
        """Use ended grants, as a holder does after a long pause, or as a stranger with the holder's fence."""
        random = self.world.random
        while not self.world.calm:
            yield Sleep(random.uniform(0, 2))
            if self.ended:
                old = random.choice(self.ended[-8:])
                if random.random() < 0.3:
                    old = replace(old, owner="stranger")
                with suppress(LockworkError):
                    yield from self.use_again(old)

    def use_again(self, old: Renewal) -> Actor:
        """Renew or release a grant that is over."""
        if self.world.random.random() < 0.5:
            yield from grants.renew([old], patience=0.0)
        else:
            yield from grants.release(old.key, old.owner, old.fence)

    def give_back(self, asked: Request, fence: int, ticket: int = 0) -> Actor:
        """Release a grant; `ticket` is its place if it waited."""
        try:
            yield from grants.release(asked.key, asked.owner, fence, *((0, ticket) if ticket else ()))
        except LockworkError:
            self.world.note(asked.owner, "could not release: the lease will end by itself")
