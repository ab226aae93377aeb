"""Once-per-period runs in the simulator: callers of several processes under faults, and the rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

from locks.simulation.lock_actors import Players
from lockwork.errors import LockworkError
from lockwork.protocol import keys
from lockwork.protocol.effects import Clock
from lockwork.protocol.locks.grants import Granted, Renewal
from lockwork.protocol.locks.leases import Lease
from lockwork.protocol.synchronizers import once
from lockwork.protocol.synchronizers.once import EndedRun, OnceRequest
from simulator.faults import MS, SECOND, Mix
from simulator.load import crowd
from simulator.process import Actor, Cancelled, Process, Sleep, Task
from simulator.runs import RELEASED, finished, incidents
from simulator.server import Build, Command, Server
from simulator.world import Broken, Step, World

_PART = "synchronizers/parts/once"
_KEY = keys.once("sim", "a")
_LEASE = 3 * SECOND
MUTANTS = (
    Build(
        "a lease and a period grow by a backward clock step",
        (
            ("synchronizers/parts/once", "if held_lease then", "if false then"),
            ("synchronizers/parts/once", "if held_period then", "if false then"),
            ("synchronizers/once_renew", "if held_lease then", "if false then"),
        ),
    ),
    Build("runs beside another", (("synchronizers/once_begin", "if state == 'r' then", "if false then"),)),
    Build("the fence does not rise", (("synchronizers/once_begin", "math.max(fence + 1, now)", "7"),)),
    Build("stores over another run",
          (("synchronizers/once_end", "owner ~= own_owner or stored_fence ~= own_fence or", ""),)),
    Build("keeps the first end only", (("synchronizers/once_end", "return state == outcome and 1 or 0", "return 0"),)),
    Build("notifies no waiter", (("synchronizers/once_end", "notify_waiters()", ""),)),
    Build("a period without an expiry", ((_PART, "outlive(once, math.max(until_us, fence, now)", "local _ = (0"),)),
)  # fmt: skip


@dataclass
class _Run:
    """The expected state of a run."""

    task: Task
    request: str
    fence: int
    deadline: int
    ends: int
    every: int
    state: str = "r"
    value: bytes = b""
    ended: int = 0


@dataclass
class Checker:
    """Checks every step against the expected state of each run."""

    world: World
    run: _Run | None = None
    runs: dict[int, _Run] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    resets: set[str] = field(default_factory=set)
    inside: dict[Task, Lease] = field(default_factory=dict)
    told: dict[Task, _Run] = field(default_factory=dict)
    """The ended run in the last reply to each task."""

    def looks(self, script: str, keys: Sequence[str]) -> list[Command]:
        """Read the state, and the expiry of the key."""
        return [("HMGET", keys[0], "s", "f", "v"), ("PTTL", keys[0])]

    def applied(self, step: Step) -> None:
        """Check a step."""
        getattr(self, f"_{step.script.partition('/')[2]}")(step)
        (state, fence, value), expiry = step.seen
        if expiry == -1:
            raise Broken("the key has no expiry")
        found = (state or b"", value or b"")
        wanted = (self.run.state.encode(), self.run.value) if self.run else (b"", b"")
        if found != wanted or (self.run and int(fence) != self.run.fence):
            raise Broken(f"{step.script}: it is {found}, not {wanted}")

    def _once_begin(self, step: Step) -> None:
        _, request, _, every, _, again, since = step.args
        run, code = self.run, step.reply[0]
        if run is not None:
            # if the clock was set back, the server cuts the rest of a lease or period to its length
            run.deadline, run.ends = min(run.deadline, step.now + _LEASE), min(run.ends, step.now + run.every)
        live = run is not None and run.state == "r" and run.deadline > step.now
        if code == 1 and run is not None and request == run.request and run.state == "r":
            run.deadline = step.reply[2]
        elif code == 1:
            lost = run is not None and run.state in "rl" and not live and again == 1
            if live or request in self.gone or not (run is None or run.ends <= step.now or lost):
                raise Broken(f"{step.task.name} may run beside {run}")
            if step.reply[1] <= max(self.runs, default=0):
                raise Broken(f"the fence {step.reply[1]} does not rise")
            self.run = _Run(
                step.task, str(request), step.reply[1], step.reply[2], step.now + int(every) * MS, int(every) * MS
            )
            self.runs[self.run.fence] = self.run
        elif code == 2:
            if run is None or live or (run.ends <= step.now and run.fence != since):
                raise Broken(f"{step.task.name} was told of an end: {run}")
            if step.reply[2:] != [b"l" if run.state == "r" else run.state.encode(), run.value]:
                raise Broken(f"{step.task.name} was told {step.reply}, not {run}")
            self.told[step.task] = run
        elif not live and request not in self.gone:
            raise Broken(f"{step.task.name} was told to wait, and nobody runs it")

    def _once_end(self, step: Step) -> None:
        _, fence, state, value = step.args
        run = self.runs[int(fence)]
        counts = run is self.run and run.state in ("r", state)
        if bool(step.reply) != counts:
            raise Broken(f"{step.task.name} was told {step.reply} at its end: {run}, {self.run}")
        if counts and run.state == "r":
            assert isinstance(value, bytes)
            run.state, run.value, run.ended = str(state), value, step.true

    def _once_renew(self, step: Step) -> None:
        run = self.runs[int(step.args[1])]
        live = run is self.run and run.state == "r" and run.deadline > step.now
        if bool(step.reply[0]) != live:
            raise Broken(f"{step.task.name} renewed {run}: {step.reply}")
        if live:
            run.deadline = step.reply[0]

    def _once_abandon(self, step: Step) -> None:
        self.gone.add(str(step.args[0]))
        if self.run and self.run.request == step.args[0] and self.run.state == "r":
            self.run = None

    def _once_reset(self, step: Step) -> None:
        if self.runs and step.args[0] not in self.resets:
            self.resets.add(str(step.args[0]))
            self.run = None


@dataclass
class Callers:
    """The callers of a run."""

    world: World
    checker: Checker
    every: int

    def caller(self, task: Task, turns: int) -> Actor:
        """Call several times, with different waits."""
        random = self.world.random
        for turn in range(turns):
            yield Sleep(random.choice([0.0, random.uniform(0, 2), random.uniform(0, 6)]))
            wait = random.choice([None, None, 0, random.uniform(0, 6)])
            again = random.random() < 0.4
            try:
                yield from self._call(task, f"{task.name}.{turn}", wait, again)
            except (Cancelled, LockworkError) as error:
                self.world.note(task.name, f"gives up: {type(error).__name__}")

    def _call(self, task: Task, request: str, wait: float | None, again: bool) -> Actor:
        process, began, owner = task.process, self.world.now, task.name
        asked = OnceRequest(_KEY, "a", owner, request, process.channel, _LEASE // MS, self.every, again)
        found = yield from once.begin(asked, wait)
        if isinstance(found, EndedRun):
            self._told(task, began)
            return
        renewal = Renewal(_KEY, owner, found.fence, _LEASE // MS, once.SCRIPTS)
        yield from self._run(task, Lease(renewal, found, (yield Clock()), renewed=True, on_lost=lambda: None), found)

    def _run(self, task: Task, lease: Lease, granted: Granted) -> Actor:
        process, checker = task.process, self.checker
        process.book.add(lease)
        process.mail.deliver("engine", "")
        checker.inside[task] = lease
        self._alone(task)
        try:
            yield Sleep(self.world.random.choice([0.0, 0.5, 2, 8]))
        except Cancelled:
            self._leave(task, lease)
            yield from once.end(_KEY, task.name, granted.fence, "l", b"")
            raise
        self._leave(task, lease)
        state: Literal["d", "f"] = "d" if self.world.random.random() < 0.7 else "f"
        yield from once.end(_KEY, task.name, granted.fence, state, f"of {granted.fence}".encode())

    def _leave(self, task: Task, lease: Lease) -> None:
        task.process.book.remove(lease)
        del self.checker.inside[task]

    def _alone(self, task: Task) -> None:
        # a reset allows a second run on purpose
        others = [other for other in self.checker.inside if other is not task and self._holds(other)]
        if others and not self.checker.resets and self.world.now - self.world.jumped > _LEASE:
            raise Broken(f"{task.name} runs beside {[other.name for other in others]}")

    def _holds(self, task: Task) -> bool:
        lease = self.checker.inside[task]
        return task.live and not lease.lost and lease.deadline > task.process.clock(self.world.now)

    def _told(self, task: Task, began: int) -> None:
        ended = self.checker.told[task].ended
        if ended <= began or task.process.unheard > self.world.now - 10 * SECOND:
            return
        late, bound = self.world.now - ended, 300 * MS if self.world.mix.quiet else 6 * SECOND
        if late > bound and task.undisturbed_since(ended - 6 * SECOND):
            raise Broken(f"{task.name} was told {late / SECOND:.2f} s late")

    def resetter(self, task: Task, turns: int) -> Actor:
        """Reset the period now and then."""
        for turn in range(turns):
            yield Sleep(self.world.random.uniform(0, 8))
            try:
                yield from once.reset(_KEY, f"{task.name}.{turn}")
            except (Cancelled, LockworkError) as error:
                self.world.note(task.name, f"gives up: {type(error).__name__}")


def onces(server: Server, seed: int, build: Build = RELEASED) -> World:
    """Callers of three processes; raises Broken."""
    # a quarter of the runs has no faults: no task may be late there
    world = World(server, seed, build, Mix(slow=0.1, twice=0.2) if seed % 4 == 0 else None)
    random = world.random
    checker = Checker(world)
    callers = Callers(world, checker, random.choice([1000, 4000, 20_000, 3_600_000]))
    world.checker = checker
    resets = random.choice([0, 0, 3])

    def populate(process: Process) -> None:
        world.start(process, "engine", lambda task: Players(world).renewer(process), background=True)
        for number in range(random.randint(1, 3)):
            world.start(process, f"c{number}", partial(callers.caller, turns=random.randint(1, 5)))
        if resets and process.name == "p0":
            world.start(process, "reset", partial(callers.resetter, turns=resets))

    incidents(world, crowd(world, populate, gap=3 * SECOND), 15 * SECOND)
    return finished(world, seed, 25, 200)
