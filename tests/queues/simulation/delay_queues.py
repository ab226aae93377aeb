"""Delay queues in the simulator: users that add, take and remove entries under faults, and the rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from lockwork.errors import LockworkError
from lockwork.protocol import keys
from lockwork.protocol.delay_queue import delay_queue
from lockwork.protocol.delay_queue.delay_queue import DelayQueueEntry
from simulator.faults import MS, SECOND, Mix
from simulator.load import crowd
from simulator.process import Actor, Cancelled, Process, Sleep, Task
from simulator.runs import RELEASED, finished, incidents
from simulator.server import Build, Command, Server
from simulator.world import Broken, Step, World

_PART = "delay_queue/parts/delay_queue"
_KEYS = keys.delay_queue("sim", "a")
_IDS = "abcdefgh"
_LOOK = 5 * SECOND
_SLACK = 300 * MS
MUTANTS = (
    Build("a call may arrive after it was sent again", ends="never"),
    Build("takes again", (("delay_queue/pop", "if result then", "if false then"),)),
    Build("notifies no waiter", (("delay_queue/add", "notify_waiters(count)", ""),)),
    Build("does not notify of an earlier entry", (("delay_queue/add", "not earliest or", "false and"),)),
    Build("no waiter takes over the watch", (("delay_queue/pop", "notify_waiters(1) end", "end"),)),
    Build("the others sleep on", ((_PART, "local CHECK_MS = 5000", "local CHECK_MS = 50000"),)),
    Build("a log without an expiry", ((_PART, "redis.call('PEXPIRE', key, 2 * RETENTION_MS)", ""),)),
)  # fmt: skip


@dataclass
class Checker:
    """Checks every step against its own list of entries."""

    world: World
    entries: dict[str, int] = field(default_factory=dict)
    since: dict[str, int] = field(default_factory=dict)
    """True time when the checker first saw each due entry."""
    replies: dict[str, Any] = field(default_factory=dict)
    """Replies to the requests that changed something."""
    took: dict[str, dict[str, int]] = field(default_factory=dict)
    given: dict[str, dict[str, int]] = field(default_factory=dict)
    """Entries that pops returned to their callers."""
    waiting: dict[Task, int] = field(default_factory=dict)
    """True time when each task began to wait."""

    def looks(self, script: str, keys: Sequence[str]) -> list[Command]:
        """Read the entries, and the expiry of the other keys."""
        return [("ZRANGE", keys[0], 0, -1, "WITHSCORES"), *(("PTTL", key) for key in keys[1:])]

    def applied(self, step: Step) -> None:
        """Check a step."""
        found, *expiries = step.seen
        if -1 in expiries:
            raise Broken("a key has no expiry")
        if step.script == "delay_queue/peek":
            return
        request = str(step.args[0])
        if request in self.replies:
            if step.script != "delay_queue/abandon" and step.reply != self.replies[request]:
                raise Broken(f"{request} was told {step.reply}, and {self.replies[request]} before")
        else:
            getattr(self, f"_{step.script.partition('/')[2]}")(step, request)
        if step.script == "delay_queue/abandon":
            self._abandoned(request)
        if {member.decode(): int(at) for member, at in found} != self.entries:
            raise Broken(f"{step.script}: {found} is queued, not {self.entries}")

    def _add(self, step: Step, request: str) -> None:
        mode, at, delay, *ids = step.args[1:]
        due = int(at) if at else step.now + int(delay)
        names = [str(id, "utf-8") for id in ids if isinstance(id, bytes)]
        new = {id: due for id in names if id not in self.entries or (mode == "r" and self.entries[id] != due)}
        self.entries.update(new)
        if step.reply != [len(new), due]:
            raise Broken(f"{request} was told {step.reply}, not {len(new)}")
        if new:
            self.replies[request] = step.reply

    def _pop(self, step: Step, request: str) -> None:
        due = sorted((at, id) for id, at in self.entries.items() if at <= step.now)[: int(step.args[1])]
        if step.reply[1:] != [part for at, id in due for part in (id.encode(), at)]:
            raise Broken(f"{request} took {step.reply[1:]}, not {due}")
        if due:
            self.replies[request] = step.reply
            self.took[request] = {id: at for at, id in due}
            for _, id in due:
                del self.entries[id]

    def _remove(self, step: Step, request: str) -> None:
        id, score = str(step.args[1], "utf-8") if isinstance(step.args[1], bytes) else "", step.args[2]
        there = id in self.entries and score in ("", self.entries[id])
        if step.reply != int(there):
            raise Broken(f"{request} was told {step.reply}: {id!r} {score!r} of {self.entries}")
        if there:
            self.replies[request] = 1
            del self.entries[id]

    def _abandon(self, step: Step, request: str) -> None:
        """Accept that a pop without entries ends. `_abandoned` notes that it must take none later."""

    def _abandoned(self, request: str) -> None:
        for id, at in self.took.pop(request, {}).items():
            self.entries.setdefault(id, at)
        self.replies[request] = [0]

    def watch(self) -> None:
        """Check that no task waits while an entry is due."""
        world = self.world
        due = {id for id, at in self.entries.items() if at <= world.server_now}
        self.since = {id: self.since.get(id, world.now) for id in due}
        oldest = min(self.since.values(), default=world.now)
        quiet = world.mix.quiet
        for task, began in self.waiting.items():
            bound = _SLACK if quiet else _LOOK + SECOND
            ready = max(oldest, began)
            if world.now - ready > bound and task.undisturbed_since(ready - 6 * SECOND) and not task.calling:
                raise Broken(f"{task.name} waits, and {self.since} are due for {(world.now - ready) / SECOND:.2f} s")

    def at_end(self) -> None:
        """Check that callers received the entries that their pops took."""
        for request, entries in self.took.items():
            whole = self.given.get(request)
            if whole is not None and whole != entries:
                raise Broken(f"{request} took {entries} and gave {whole}")
            if whole is None and self.world.mix.quiet:
                raise Broken(f"{request} took {entries}, which nobody has")


@dataclass
class Users:
    """The users of a run."""

    world: World
    checker: Checker

    def producer(self, task: Task, turns: int, pace: float) -> Actor:
        """Add, move and remove now and then."""
        random = self.world.random
        for turn in range(turns):
            yield Sleep(random.uniform(0, pace))
            request = f"{task.name}.{turn}"
            ids = random.sample(_IDS, random.randint(1, 3))
            delay = random.choice([0, 0, random.randint(0, SECOND), random.randint(0, 10 * SECOND)])
            try:
                if random.random() < 0.2:
                    (read,) = (yield from delay_queue.peek(_KEYS, 1, due=False)) or [DelayQueueEntry(ids[0], 0)]
                    moved = read.score + random.choice([0, 0, 1])
                    yield from delay_queue.remove(_KEYS, request, read.id, moved)
                else:
                    replace = random.random() < 0.5
                    yield from delay_queue.add(_KEYS, request, ids, None, delay, replace=replace)
            except (Cancelled, LockworkError) as error:
                self.world.note(task.name, f"gives up: {type(error).__name__}")

    def taker(self, task: Task, turns: int) -> Actor:
        """Take due entries, and wait for them."""
        random = self.world.random
        for turn in range(turns):
            yield Sleep(random.choice([0.0, random.uniform(0, 2)]))
            wait = random.choice([0, random.uniform(0, 4), random.uniform(0, 15)])
            yield from self._take(task, f"{task.name}.{turn}", random.randint(1, 3), wait)

    def _take(self, task: Task, request: str, count: int, wait: float) -> Actor:
        if wait:
            self.checker.waiting[task] = self.world.now
        try:
            got = yield from delay_queue.pop(_KEYS, request, task.process.channel, count, wait)
        except (Cancelled, LockworkError) as error:
            self.world.note(task.name, f"gives up: {type(error).__name__}")
        else:
            self.checker.given[request] = {entry.id: entry.score for entry in got}
            self.world.note(task.name, f"has {[entry.id for entry in got]}")
        finally:
            self.checker.waiting.pop(task, None)

    def drain(self, task: Task) -> Actor:
        """Check the waiting tasks until the faults are over, then take all remaining entries."""
        while not self.world.calm:
            self.checker.watch()
            yield Sleep(0.1)
        for turn in range(40):
            yield from self._take(task, f"{task.name}.{turn}", 3, 1)
        if self.checker.entries:
            raise Broken(f"{self.checker.entries} are never taken")


def delay_queues(server: Server, seed: int, build: Build = RELEASED) -> World:
    """Users of three processes at one delay queue; raises Broken."""
    # a quarter of the runs has no faults: no task may be late there
    world = World(server, seed, build, Mix(slow=0.1, twice=0.2) if seed % 4 == 0 else None)
    random = world.random
    checker = Checker(world)
    users = Users(world, checker)
    world.checker = checker
    pace = random.choice([0.5, 3, 6])

    def populate(process: Process) -> None:
        for number in range(random.randint(0, 2)):
            world.start(process, f"a{number}", partial(users.producer, turns=random.randint(1, 6), pace=pace))
        for number in range(random.randint(1, 3)):
            world.start(process, f"t{number}", partial(users.taker, turns=random.randint(1, 5)))

    kill = crowd(world, populate, gap=3 * SECOND)
    world.start(world.process("judge"), "drain", users.drain)
    incidents(world, kill, 15 * SECOND, set_right=True)
    return finished(world, seed, 25, 200, checker.at_end)
