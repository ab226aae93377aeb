"""Multilocks in virtual time, beside single locks on the same keys: their users, rules, and mutants."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from msgspec.structs import replace

from locks.simulation.lock_actors import Belief, Players
from locks.simulation.lock_checks import LockChecker
from lockwork.errors import LockTimeout, LockworkError
from lockwork.protocol import keys
from lockwork.protocol.effects import Clock
from lockwork.protocol.locks import multilock
from lockwork.protocol.locks.grants import Granted, Renewal, Request
from lockwork.protocol.locks.leases import Lease
from simulator.faults import SECOND
from simulator.load import crowd
from simulator.process import Actor, Cancelled, Process, Sleep, Task
from simulator.runs import RELEASED, finished, incidents
from simulator.server import Build, Server
from simulator.world import Broken, Step, World

_ALONE = {
    "locks/multi_acquire": "locks/acquire",
    "locks/multi_abandon": "locks/abandon",
    "locks/multi_release": "locks/release",
}
_NAMES = ["a", "b", "c"]

MUTANTS = (
    Build(
        "a caller that lost one lock keeps the later ones while it waits",
        (("locks/multi_acquire", "    withdraw_from(at + 1, #locks)", "    local _ = at"),),
    ),
    Build("not waiting, it keeps the free locks", (("locks/multi_acquire", "    withdraw_from(1, at - 1)\n", ""),)),
    Build("only the first is released", (("locks/multi_release", "    release_to_next(",
                                          "    if at == 1 then release_to_next("),
                                         ("locks/multi_release", "head, tail)\n", "head, tail) end\n"))),
    Build("any owner may release", (("locks/multi_release", "holder ~= owner or held_fence ~= ARGV[FIRST + at - 1] or",
                                   "not holder or"),)),
    Build("it polls again too late", (("locks/multi_acquire", "math.floor(lease / 3)", "600000"),
                                    ("locks/multi_acquire", "local check = fence_or_check",
                                     "local check = 600000"))),
)  # fmt: skip


@dataclass
class Collectors(Players):
    """Contenders that take one lock, or several at once."""

    slots: dict[str, int] = field(default_factory=dict)
    """The slot of each lock. One script acquires all locks of a slot."""

    def _turn(self, task: Task, name: str) -> Actor:
        random = self.world.random
        count = random.randint(1, len(_NAMES))
        if count == 1 and random.random() < 0.7:
            yield from super()._turn(task, name)
            return
        wait = random.choice([None, None, None, 0, random.uniform(0.1, 5)])
        lease_ms, renewed = random.choice([1000, 2000, 4000, 15000]), random.random() < 0.7
        request = f"r{next(self.numbers)}"
        asked = Request("", "x", task.name, request, task.process.channel, lease_ms, renewed, noun="multilock")
        groups = self._groups(random.sample(_NAMES, count))
        every = [replace(asked, key=key) for group in groups for key in group]
        for one in every:
            self.waiting.setdefault(one.key, {})[task] = one
        try:
            granted = yield from multilock.acquire(asked, groups, wait)
        except LockTimeout:
            return
        finally:
            for one in every:
                self.waiting[one.key].pop(task, None)
        yield from self._hold_all(task, every, granted, groups)

    def _groups(self, names: Sequence[str]) -> list[list[str]]:
        slots: dict[int, list[str]] = {}
        for name in sorted(names):
            slots.setdefault(self.slots[name], []).append(keys.lock("sim", name))
        return [slots[slot] for slot in sorted(slots)]

    def _hold_all(
        self, task: Task, every: list[Request], granted: dict[str, Granted], groups: list[list[str]]
    ) -> Actor:
        random = self.world.random
        beliefs = []
        for one in every:
            grant = granted[one.key]
            renewal = Renewal(one.key, one.owner, grant.fence, one.lease_ms)
            lease = Lease(renewal, grant, (yield Clock()), renewed=one.renewed, on_lost=lambda: None)
            self.enters(task, lease)
            beliefs.append(Belief(task, lease, grant.fence))
            self.beliefs.setdefault(one.key, []).append(beliefs[-1])
            task.process.book.add(lease)
        task.process.mail.deliver("engine", "ring")
        with suppress(Cancelled):
            yield Sleep(random.choice([0.0, random.uniform(0, 0.2), random.uniform(0, 5)]))
        for belief in beliefs:
            self.beliefs[belief.lease.renewal.key].remove(belief)
            task.process.book.remove(belief.lease)
            belief.lease.lost = True
        with suppress(LockworkError):
            yield from multilock.release(task.name, {key: grant.fence for key, grant in granted.items()}, groups)
        self.ended += [belief.lease.renewal for belief in beliefs]


class MultiChecker(LockChecker):
    """Checks a script of several locks like one script per lock, and checks that its reply is true."""

    asks_all = False

    def applied(self, step: Step) -> None:
        """Check a step, lock by lock."""
        if step.script not in _ALONE:
            super().applied(step)
            return
        behind = False
        for at, key in enumerate(step.keys):
            args = (*step.args[:2], step.args[2 + at]) if step.script == "locks/multi_release" else step.args
            alone = dataclasses.replace(
                step, script=_ALONE[step.script], keys=[key], args=args, seen=step.seen[2 * at : 2 * at + 2]
            )
            super().applied(alone)
            placed = f"i{step.args[1]!s}".encode() in alone.seen[0]
            if not placed:
                self._locks[key].asked.pop((step.task, str(step.args[1])), None)  # it does not wait for this lock now
            self._reply(step, at, key)
            if step.script == "locks/multi_acquire" and step.reply[0] == 0:
                mine = self._mine(step, key)
                if behind and (placed or mine):
                    raise Broken(f"L4: {step.args[1]!r} waits, and has {key}, or a place there, which comes after that")
                behind = behind or not mine

    def _mine(self, step: Step, key: str) -> bool:
        held = self._locks[key].held
        return held.live(step.now) and (held.owner, held.request) == (step.args[0], step.args[1])

    def _reply(self, step: Step, at: int, key: str) -> None:
        held, mine = self._locks[key].held, self._mine(step, key)
        if step.script == "locks/multi_acquire":
            if step.reply[0] == 1 and not (mine and step.reply[2 + 2 * at : 4 + 2 * at] == [held.fence, held.deadline]):
                raise Broken(f"L1: {step.args[1]!r} was told of a grant of {key} that is not its own: {held}")
            if step.reply[0] == 0 and step.args[4] == 0 and mine:
                raise Broken(f"L6: {step.args[1]!r} was refused, and has {key}")
        elif step.script == "locks/multi_abandon" and mine:
            raise Broken(f"L6: {step.args[1]!r} was withdrawn, and has {key}")
        elif step.script == "locks/multi_release" and held.live(step.now) and held.fence == step.args[2 + at]:
            raise Broken(f"L6: {key} was released, and is held: {held}")


def run(server: Server, seed: int, build: Build = RELEASED) -> World:
    """Contenders of three processes on three locks; raises Broken."""
    world = World(server, seed, build)
    slots = {name: world.random.choice([0, 0, 0, 1, 2]) for name in _NAMES}
    players = Collectors(world, slots=slots)
    checker = MultiChecker(world, players)
    world.checker = checker
    rounds = world.random.randint(2, 5)

    def populate(process: Process) -> None:
        world.start(process, "engine", lambda task: players.renewer(process), background=True)
        for number in range(world.random.randint(1, 3)):
            world.start(process, f"c{number}", lambda task: players.contender(task, _NAMES, rounds))

    kill = crowd(world, populate)
    world.start(world.process("m"), "meddler", lambda _: players.meddler(), background=True)
    incidents(world, kill, 20 * SECOND)
    return finished(world, seed, 30, 400, checker.at_end)
