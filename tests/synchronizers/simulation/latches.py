"""Latches in the simulator: users that count down, wait and reset under faults, and the rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from lockwork.errors import LockworkError
from lockwork.protocol import keys
from lockwork.protocol.synchronizers import latch
from lockwork.protocol.synchronizers.latch import LatchRequest
from simulator.faults import MS, SECOND
from simulator.load import crowd
from simulator.process import Actor, Cancelled, Process, Sleep, Task
from simulator.runs import RELEASED, finished, incidents
from simulator.server import Build, Command, Server
from simulator.world import Broken, Step, World

_PART = "synchronizers/parts/latch"
_LOOK = 5 * SECOND
_SLACK = 250 * MS
_GAP = 150 * MS
"""Maximum time from a waiter's call until its reply, and any message sent meanwhile, has arrived."""
_TURN = "if now - since_us >= MARGIN_MS * 1000 or since_us > now + MARGIN_MS * 1000 then"
_BEFORE = "redis.call('HGET', logs[1 + log_in_use], request) or redis.call('HGET', logs[2 - log_in_use], request)"
MUTANTS = (
    Build("counts twice", (("synchronizers/latch_count", _BEFORE, "false"),)),
    Build("a reset forgets the requests", ((_PART, _TURN, "if true then"),)),
    Build(
        "opens one too early",
        (("synchronizers/latch_count", "math.max(0, remaining - n)", "math.max(0, remaining - n - 1)"),),
    ),
    Build(
        "notifies no waiter",
        (("synchronizers/latch_count", "publish(string.sub(fields[at], 2), sealed(secret, latch, words))", ""),),
    ),
    Build(
        "a place for a moment", (("synchronizers/latch_wait", "now + PLACE_MS * 1000, secret", "now + 1000, secret"),)
    ),
    Build(
        "a latch without an expiry", ((_PART, "redis.call('PEXPIRE', key, math.max(ttl, PLACE_MS) + MARGIN_MS)", ""),)
    ),
)


@dataclass
class Users:
    """The users of a run."""

    world: World
    latch: LatchRequest
    opened: list[int] = field(default_factory=list)
    """True times when the latch opened."""
    closed: list[int] = field(default_factory=list)
    """True times when a round began."""
    looks: dict[Task, list[int]] = field(default_factory=dict)
    """True times of each task's calls in its present wait."""

    def counter(self, task: Task, turns: int, pace: float) -> Actor:
        """Count down now and then."""
        random = self.world.random
        for turn in range(turns):
            yield Sleep(random.uniform(0, pace))
            try:
                yield from latch.count_down(self.latch, f"{task.name}.{turn}", random.choice([1, 1, 1, 2]))
            except (Cancelled, LockworkError) as error:
                self.world.note(task.name, f"gives up: {type(error).__name__}")

    def resetter(self, task: Task, turns: int) -> Actor:
        """Begin a new round now and then."""
        random = self.world.random
        for turn in range(turns):
            yield Sleep(random.choice([random.uniform(0, 0.5), random.uniform(0, 8)]))
            try:
                yield from latch.reset(self.latch, f"{task.name}.{turn}")
            except (Cancelled, LockworkError) as error:
                self.world.note(task.name, f"gives up: {type(error).__name__}")

    def waiter(self, task: Task, turns: int) -> Actor:
        """Wait several times, for longer or shorter."""
        random = self.world.random
        for _ in range(turns):
            yield Sleep(random.choice([0.0, random.uniform(0, 3)]))
            timeout = random.choice([0, random.uniform(0, 5), 30])
            began = self.world.now
            try:
                passed = yield from latch.wait(self.latch, task.process.channel, timeout)
            except (Cancelled, LockworkError) as error:
                self.world.note(task.name, f"gives up: {type(error).__name__}")
            else:
                self.world.note(task.name, "passes" if passed else "has waited enough")
                self._waited(task, began, passed)

    def _waited(self, task: Task, began: int, passed: bool) -> None:
        looks = self.looks[task]
        if not passed:
            if heard := [opened for opened in self.opened if looks[0] < opened < looks[-1]]:
                raise Broken(f"{task.name} was told at {looks[-1]} that nothing opened; it did at {heard}")
            return
        open_then = self._open_at(began)
        since = [opened for opened in self.opened if opened >= began]
        if not open_then and not since:
            raise Broken(f"{task.name} passes, and it did not open")
        if open_then or not since:
            return
        missed = task.process.unheard > since[0] - 10 * SECOND
        # the only message to the process may arrive after this waiter's call and before it listens, like a lost one
        missed = missed or any(abs(since[0] - look) < _GAP for look in looks)
        bound = (_LOOK if missed else 0) + _SLACK
        if task.undisturbed_since(since[0] - 10 * SECOND) and self.world.now - since[0] > bound:
            raise Broken(f"{task.name} learned only {(self.world.now - since[0]) / SECOND:.2f} s later that it opened")

    def _open_at(self, true: int) -> bool:
        opened = max((at for at in self.opened if at <= true), default=-1)
        return opened >= 0 and opened >= max((at for at in self.closed if at <= true), default=-1)


@dataclass
class Checker:
    """Checks every step against an independent count."""

    world: World
    users: Users
    left: int = 0
    counted: dict[str, int] = field(default_factory=dict)
    """Remaining count after each request."""
    resets: set[str] = field(default_factory=set)

    def looks(self, script: str, keys: Sequence[str]) -> list[Command]:
        """Read the remaining count, and the expiry of the keys."""
        return [("HGET", keys[0], "n"), *(("PTTL", key) for key in keys)]

    def applied(self, step: Step) -> None:
        """Check a step."""
        found, *expiries = step.seen
        if -1 in expiries:
            raise Broken("a key has no expiry")
        if not self.users.closed:
            self.left = self.users.latch.count
            self.users.closed.append(step.true)
        if step.script == "synchronizers/latch_reset":
            request = str(step.args[2])
            if request not in self.resets:
                self.resets.add(request)
                self.left = self.users.latch.count
                self.users.closed.append(step.true)
        elif step.script == "synchronizers/latch_count":
            self._counted(step)
        else:
            if step.args[2] == 0:
                self.users.looks[step.task] = []
            self.users.looks[step.task].append(step.true)
            if step.reply[0] == 0 and not self.left:
                raise Broken(f"{step.task.name} was told that an open latch is closed")
        if int(found) != self.left:
            raise Broken(f"{step.script}: {int(found)} is left, not {self.left}")

    def _counted(self, step: Step) -> None:
        request = str(step.args[2])
        if request not in self.counted:
            before, self.left = self.left, max(0, self.left - int(step.args[3]))
            self.counted[request] = self.left
            if before and not self.left:
                self.users.opened.append(step.true)
        if step.reply != [1, self.counted[request]]:
            raise Broken(f"{request} was told {step.reply}, not {self.counted[request]}")


def latches(server: Server, seed: int, build: Build = RELEASED) -> World:
    """Users of three processes at one latch; raises Broken."""
    world = World(server, seed, build)
    random = world.random
    users = Users(world, LatchRequest(keys.latch("sim", "a"), "a", random.randint(1, 8), 3_600_000))
    checker = Checker(world, users)
    world.checker = checker
    pace = random.choice([0.5, 3, 8])
    resets = random.choice([0, 0, 2, 5])

    def populate(process: Process) -> None:
        for number in range(random.randint(1, 2)):
            world.start(process, f"c{number}", partial(users.counter, turns=random.randint(1, 4), pace=pace))
        for number in range(random.randint(1, 3)):
            world.start(process, f"w{number}", partial(users.waiter, turns=random.randint(1, 3)))
        if resets and process.name == "p0":
            world.start(process, "reset", partial(users.resetter, turns=resets))

    incidents(world, crowd(world, populate, gap=3 * SECOND), 15 * SECOND)
    return finished(world, seed, 25, 200)
