"""The options of locks in virtual time: sticky, extended, exported and adopted, force-released, at_least.

The real StickyCache keeps the sticky locks. Requests to it may be lost, or arrive late or twice.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from locks.simulation.lock_actors import Belief, Players
from locks.simulation.lock_option_checks import LockOptionChecker
from lockwork.errors import LockTimeout, LockworkError
from lockwork.protocol import keys
from lockwork.protocol.effects import Clock, Park
from lockwork.protocol.locks import grants
from lockwork.protocol.locks.grants import Granted, Renewal, Request
from lockwork.protocol.locks.leases import Lease
from lockwork.runtime.sticky_cache import CachedLock, StickyCache
from simulator.faults import SECOND
from simulator.load import crowd
from simulator.process import Actor, Cancelled, Process, Sleep, Task
from simulator.runs import RELEASED, finished, incidents
from simulator.server import Build, Server
from simulator.world import World

_CHANNELS = "sim:wake:"


class UnsubscribedKeeper(StickyCache):
    """A mutant that ignores requests for its locks."""

    def asked(self, key: str) -> Lease | None:
        return None


class SharingKeeper(StickyCache):
    """A mutant that keeps a lock in the cache after its release."""

    def asked(self, key: str) -> Lease | None:
        kept = self.idle.get(key)
        lease = super().asked(key)
        if kept is not None:
            self.idle[key] = kept
        return lease


class DoublingKeeper(StickyCache):
    """A mutant that stores an idle lock a second time, when another task has already taken it."""

    def keep(self, key: str, kept: CachedLock) -> Lease | None:
        lease = super().keep(key, kept)
        if lease is None:
            self.twice = key, kept
        return lease

    twice: tuple[str, CachedLock] | None = None

    def pop(self, key: str) -> CachedLock | None:
        """Take an idle lock, and store it again."""
        found = self.idle.pop(key, None)
        if found is not None and self.twice is not None and self.twice[1] is found:
            self.idle[key] = found
        return found


@dataclass
class Veterans(Players):
    """Contenders that use all options."""

    keeper: Callable[[], StickyCache] = StickyCache
    keepers: dict[Process, StickyCache] = field(default_factory=dict)
    passed: list[tuple[str, str, int]] = field(default_factory=list)
    """Exported grants that a task may adopt: key, owner, fence."""
    idle: dict[str, tuple[Process, int, int]] = field(default_factory=dict)
    """Idle sticky locks: process, fence, and true time of the start."""
    forced: dict[int, int] = field(default_factory=dict)
    """Fences of force-released grants, with the true time of the release."""
    least: dict[str, int] = field(default_factory=dict)
    """Server time when a released lock's minimum time ends."""

    def ear(self, process: Process) -> Actor:
        """Receive the process's messages, as the engine does, and release requested locks."""
        keeper = self.keepers[process]
        while True:
            text = yield Park("!", (yield Clock()) + 3600)
            what, _, key = (text or "").partition(" ")
            if what == "look":
                process.book.hasten({key})
                process.mail.deliver("engine", "ring")
            elif what == "asked" and (lease := keeper.asked(key)) is not None:
                self.world.note(process.name, f"gives back {key}")
                yield from self._put_back(process, lease)

    def _put_back(self, process: Process, lease: Lease) -> Actor:
        process.book.remove(lease)
        renewal = lease.renewal
        self.idle.pop(renewal.key, None)
        with suppress(LockworkError):
            yield from grants.release(renewal.key, renewal.owner, renewal.fence, patience=0.1)

    def operator(self) -> Actor:
        """Force-release locks now and then."""
        while not self.world.calm:
            yield Sleep(self.world.random.uniform(0.5, 6))
            key = keys.lock("sim", self.world.random.choice(["a", "b"]))
            with suppress(LockworkError):
                found = yield from grants.state(key)
                yield Sleep(self.world.random.choice([0, 0, 0.5]))
                if found.expires_in:
                    yield from grants.force(key, found.fence, _CHANNELS)

    def _turn(self, task: Task, name: str) -> Actor:
        random = self.world.random
        sticky, key = random.random() < 0.5, keys.lock("sim", name)
        number = next(self.numbers)
        owner = task.name.replace("/", ":") + f".{number}"
        request, lease_ms, renewed = f"{task.process.name}.{number}", random.choice([1000, 4000, 15000]), True
        if sticky:
            owner, request = f"{owner}~{request}", f"~{request}"
        elif random.random() < 0.3:
            renewed = False
        asked = Request(key, name, owner, request, task.process.channel, lease_ms, renewed)
        lease = (yield from self._at_hand(task, key)) if sticky else None
        if lease is None:
            granted = yield from self._granted(task, asked)
            if granted is None:
                return
            renewal = Renewal(key, owner, granted.fence, lease_ms)
            lease = Lease(renewal, granted, (yield Clock()), renewed=renewed, on_lost=lambda: None)
            task.process.book.add(lease)
            task.process.mail.deliver("engine", "ring")
            if sticky and not granted.waited:
                self.keepers[task.process].begin(lease)
        yield from self._hold(task, lease, sticky=sticky)

    def _granted(self, task: Task, asked: Request) -> Generator[Any, Any, Granted | None]:
        random = self.world.random
        mine = [one for one in self.passed if one[0] == asked.key]
        if mine and random.random() < 0.7:
            one = random.choice(mine)
            if random.random() < 0.8:  # else a task may adopt it a second time
                self.passed.remove(one)
            return (yield from grants.adopt(asked, *one[1:]))
        waiting = self.waiting.setdefault(asked.key, {})
        waiting[task] = asked
        try:
            return (yield from grants.acquire(asked, random.choice([None, None, 0, random.uniform(0.1, 5)])))
        except LockTimeout:
            return None
        finally:
            del waiting[task]

    def _at_hand(self, task: Task, key: str) -> Generator[Any, Any, Lease | None]:
        keeper = self.keepers[task.process]
        at = yield Clock()
        kept = keeper.pop(key) if isinstance(keeper, DoublingKeeper) else keeper.idle.pop(key, None)
        if kept is None:
            return None
        self.idle.pop(key, None)
        if kept.lease.lost or at >= kept.lease.deadline:
            keeper.end(kept)
            return None
        return kept.lease

    def _hold(self, task: Task, lease: Lease, *, sticky: bool) -> Actor:
        random, renewal, process = self.world.random, lease.renewal, task.process
        at_least = random.uniform(0, 3) if not sticky and random.random() < 0.3 else 0.0
        since = yield Clock()
        self.enters(task, lease)
        belief = Belief(task, lease, renewal.fence)
        self.believe(renewal.key, belief)
        with suppress(Cancelled, LockworkError):
            yield Sleep(random.choice([0.0, random.uniform(0, 0.2), random.uniform(0, 4)]))
            if random.random() < 0.3:
                yield from self._extend(process, lease)
                yield Sleep(random.uniform(0, 2))
        self.beliefs[renewal.key].remove(belief)
        if sticky and self._put_down(process, lease):
            return
        self.ended.append(renewal)
        process.book.remove(lease)
        lease.lost = True
        if random.random() < 0.25:
            self.passed.append((renewal.key, renewal.owner, renewal.fence))
            self.world.note(task.name, f"exports {renewal.fence}")
            return
        left = round((since + at_least - (yield Clock())) * 1000)
        with suppress(LockworkError):
            yield from grants.release(renewal.key, renewal.owner, renewal.fence, *([left] if left > 0 else []))

    def believe(self, key: str, belief: Belief) -> None:
        """Record that a task relies on the lock from now on; raises Broken if another task does, too."""
        beliefs = self.beliefs.setdefault(key, [])
        LockOptionChecker.alone(self.world, belief, beliefs, self.forced)
        beliefs.append(belief)

    def _extend(self, process: Process, lease: Lease) -> Actor:
        longer = replace(lease.renewal, lease_ms=self.world.random.choice([500, 8000, 20000]))
        (deadline,) = yield from grants.renew([longer], None)
        if deadline is None:
            process.book.lose(lease)
            return
        process.book.remove(lease)
        lease.deadline = max(lease.deadline, deadline)
        if not lease.renewed:
            lease.next = lease.deadline
        if not lease.lost:
            process.book.add(lease)
            process.mail.deliver("engine", "ring")

    def _put_down(self, process: Process, lease: Lease) -> bool:
        keeper, key = self.keepers[process], lease.renewal.key
        kept = keeper.all.get(key)
        if kept is None or kept.lease is not lease:
            return False
        if kept.asked or lease.lost or process.clock(self.world.now) >= lease.deadline:
            keeper.end(kept)
            return False
        lease.on_lost = kept.lost
        back = keeper.keep(key, kept)
        if back is not None:
            task = self.world.start(process, f"back{next(self.numbers)}", lambda _: self._put_back(process, back))
            task.background = True
        else:
            self.idle[key] = process, lease.renewal.fence, self.world.now
        return True


def run(server: Server, seed: int, build: Build = RELEASED, keeper: Callable[[], StickyCache] = StickyCache) -> World:
    """Contenders of three processes that use all options on one or two locks; raises Broken."""
    world = World(server, seed, build)
    players = Veterans(world, keeper=keeper)
    checker = LockOptionChecker(world, players)
    world.checker = checker
    names = ["a", "b"][: world.random.randint(1, 2)]
    rounds = world.random.randint(2, 6)

    def populate(process: Process) -> None:
        players.keepers[process] = players.keeper()
        world.start(process, "engine", lambda task: players.renewer(process), background=True)
        world.start(process, "ear", lambda task: players.ear(process), background=True)
        for number in range(world.random.randint(1, 3)):
            world.start(process, f"c{number}", lambda task: players.contender(task, names, rounds))

    kill = crowd(world, populate)
    meddlers = world.process("m")
    world.start(meddlers, "meddler", lambda _: players.meddler(), background=True)
    if world.random.random() < 0.5:
        world.start(meddlers, "operator", lambda _: players.operator(), background=True)
    incidents(world, kill, 20 * SECOND)
    return finished(world, seed, 30, 400, checker.at_end)
