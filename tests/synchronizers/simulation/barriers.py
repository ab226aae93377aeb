"""Barriers in the simulator: parties that wait, give up, are cancelled and die, and the rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from lockwork.errors import LockworkError, WaitTimeout
from lockwork.protocol import keys
from lockwork.protocol.synchronizers import barrier
from lockwork.protocol.synchronizers.barrier import Arrival
from simulator.faults import MS, SECOND
from simulator.load import crowd
from simulator.process import Actor, Cancelled, Process, Sleep, Task
from simulator.runs import RELEASED, finished, incidents
from simulator.server import Build, Command, Server
from simulator.world import Broken, Step, World

_PART = "synchronizers/parts/barrier"
_LOOK = 5 * SECOND
_PLACE = 15 * SECOND
_SLACK = 250 * MS
_OLD = "(old_generation > first_generation and notified_us > now - RETENTION_MS * 1000)"
MUTANTS = (
    Build(
        "forgets the passed parties at once",
        (
            (_PART, _OLD, "false"),
            (_PART, "oldest < newest and", "oldest <= newest and"),
            (_PART, "old_generation >= generation - 1 or", ""),
        ),
    ),
    Build(
        "opens for one too few", (("synchronizers/barrier_arrive", "others + 1 >= parties", "others + 2 >= parties"),)
    ),
    Build("an index for two", ((_PART, "index = notified + at - 1", "index = 0"),)),
    Build("no waiter is notified", ((_PART, "publish(channel,", "tostring("),)),
    Build("a barrier without an expiry", ((_PART, "redis.call('PEXPIRE', barrier, 2 * RETENTION_MS)", ""),)),
)


@dataclass
class Parties:
    """The parties of a run, and the requests that have passed or withdrawn."""

    world: World
    count: int
    pace: float
    """Maximum seconds between two turns of a party."""
    opened: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Index of each request that passed, and the true time when the barrier opened for it."""
    gone: set[str] = field(default_factory=set)
    """Requests whose callers received WaitTimeout, so they no longer count."""

    def party(self, task: Task, turns: int) -> Actor:
        """Wait at the barrier several times, for longer or shorter."""
        random = self.world.random
        for turn in range(turns):
            yield Sleep(random.choice([0.0, 0.0, random.uniform(0, 0.5), random.uniform(0, self.pace)]))
            request = f"{task.name}.{turn}"
            timeout = random.choice([0, random.uniform(0, 3), random.uniform(2, 25), 60])
            arrival = Arrival(keys.barrier("sim", "a"), "a", self.count, request, task.process.channel)
            try:
                index = yield from barrier.wait(arrival, timeout)
            except WaitTimeout:
                self.gone.add(request)
                if request in self.opened:
                    raise Broken(f"{request} was told that it does not count, and the barrier opened for it") from None
            except (Cancelled, LockworkError) as error:
                self.world.note(task.name, f"gives up: {type(error).__name__}")
            else:
                self._passes(task, request, index)

    def _passes(self, task: Task, request: str, index: int) -> None:
        self.world.note(task.name, f"passes as {index}")
        if request not in self.opened:
            raise Broken(f"{request} passes a barrier that did not open for it")
        known, opened = self.opened[request]
        if index != known:
            raise Broken(f"{request} passes as {index}, not as {known}")
        missed = task.process.unheard > opened - 10 * SECOND
        bound = (_LOOK if missed else 0) + _SLACK
        if task.undisturbed_since(opened - 10 * SECOND) and self.world.now - opened > bound:
            raise Broken(f"{request} learned only {(self.world.now - opened) / SECOND:.2f} s later that it may pass")


@dataclass
class Checker:
    """Checks every step on the barrier's keys."""

    world: World
    parties: Parties
    places: dict[str, int] = field(default_factory=dict)
    asked: dict[str, int] = field(default_factory=dict)
    """Server time of each request's last call."""
    generation: int = 0

    def looks(self, script: str, keys: Sequence[str]) -> list[Command]:
        """Read the keys and their expiry."""
        return [("HGETALL", keys[0]), ("ZRANGE", keys[1], 0, -1, "WITHSCORES"), ("PTTL", keys[0]), ("PTTL", keys[1])]

    def applied(self, step: Step) -> None:
        """Check a step."""
        fields, places, *expiries = step.seen
        if -1 in expiries:
            raise Broken("a key has no expiry")
        if step.script == "synchronizers/barrier_arrive":
            request = str(step.args[1])
            self.asked[request] = step.now
            if step.reply[0] == 1 and request not in self.parties.opened and step.reply[2] <= self.generation:
                raise Broken(f"{request} passes with a generation that is over")
        if int(fields.get(b"g", 0)) != self.generation:
            self._opened(step)
        self.places = {name.decode(): int(until) for name, until in places}
        if (
            step.script == "synchronizers/barrier_arrive"
            and not step.reply[0]
            and self.places[str(step.args[1])] < step.now + _PLACE
        ):
            raise Broken(f"{step.args[1]!r} asked again, and its place would lapse although it asks in time")
        live = [name for name, until in self.places.items() if until > step.now]
        if len(live) >= self.parties.count:
            raise Broken(f"{live} have arrived, and it does not open")
        if both := self.places.keys() & (self.parties.gone | self.parties.opened.keys()):
            raise Broken(f"{both} have left, and still count")

    def _opened(self, step: Step) -> None:
        group = {name for name, until in self.places.items() if until > step.now} | {str(step.args[1])}
        self.generation += 1
        if len(group) != self.parties.count:
            raise Broken(f"it opens for {sorted(group)}, and has {self.parties.count} parties")
        if again := group & (self.parties.opened.keys() | self.parties.gone):
            raise Broken(f"it opens for {again}, who had passed or withdrawn")
        if lapsed := [name for name in group if step.now - self.asked[name] >= _PLACE]:
            raise Broken(f"it opens for {lapsed}, who did not ask for 15 s")
        order = sorted(group, key=lambda name: name != str(step.args[1]))
        messages = {order[0]: step.reply[1]}
        for name in order[1:]:
            # the barrier stores the index of each party that it lets pass, for its next call
            found = self.world.server.command("HGET", step.keys[0], f"i{name}")
            if found is None:
                raise Broken(f"nothing says that {name} has passed")
            messages[name] = found[-1]
        if sorted(messages.values()) != list(range(self.parties.count)):
            raise Broken(f"the indexes are {messages}")
        for name, index in messages.items():
            self.parties.opened[name] = index, step.true


def barriers(server: Server, seed: int, build: Build = RELEASED) -> World:
    """Parties of three processes at one barrier; raises Broken."""
    world = World(server, seed, build)
    random = world.random
    parties = Parties(world, random.randint(2, 4), random.choice([2, 4, 40]))
    checker = Checker(world, parties)
    world.checker = checker

    def populate(process: Process) -> None:
        for number in range(random.randint(1, 3)):
            world.start(process, f"c{number}", partial(parties.party, turns=random.randint(2, 6)))

    incidents(world, crowd(world, populate, gap=20 * SECOND), 30 * SECOND)
    return finished(world, seed, 60, 600)
