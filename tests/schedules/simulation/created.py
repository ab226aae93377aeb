"""Schedules that are created at run time, in the simulator: users change them while workers fire them, with faults."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec

from lockwork.errors import ConfigError, LockworkError
from lockwork.protocol.effects import Clock, Park
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import leases
from lockwork.protocol.schedules import created, schedules
from lockwork.protocol.schedules.created import NEVER, SlotRules
from lockwork.protocol.schedules.schedules import MOST_MISSED, SchedulePlan, Ticker, slot_id
from lockwork.schedules.options import CreatedScheduleSettings, ScheduleRules, slot_rules
from lockwork.tasks.call import TaskCall
from simulator.faults import MS, SECOND, Mix
from simulator.process import Actor, Cancelled, Sleep, Task
from simulator.runs import finished, incidents
from simulator.server import Build, Command, Server
from simulator.world import Broken, Step, World

_QUEUE = QueueKeys("sim", "a")
_NEWER = b'"every":5000'
"""The definitions that only some workers can read."""
_BEAT = 5.0
_NAMES = "abc"
_OPTIONS: tuple[CreatedScheduleSettings, ...] = (
    {"every": 2},
    {"every": 3, "overlap": "skip"},
    {"every": 3, "misfire": "all", "catch_up": 4},
    {"every": 4, "misfire": "skip", "grace": 2},
    {"every": 5},
)


def _plan(name: str, options: CreatedScheduleSettings, body: str = "x") -> SchedulePlan:
    call = TaskCall(_QUEUE.base, f'1,4,,;["{body}",[]]'.encode(), 0)
    return ScheduleRules.read(options, created=True).plan(name, call)


def _read_old(definition: bytes) -> SlotRules:
    if _NEWER in definition:
        raise ConfigError("a newer sign")
    return slot_rules(definition)


@dataclass
class Book:
    """The expected state of a schedule."""

    plan: SchedulePlan
    cursor: int
    paused: int = 0
    job: str = ""
    slot: int = 0
    enqueued: int = 0
    overlapped: int = 0
    missed: int = 0

    def state(self) -> list[Any]:
        """Return the state in the server's format."""
        return [self.plan.digest, self.plan.timing, *list(vars(self).values())[1:]]


@dataclass
class CreatedChecker:
    """Checks each step: a slot is enqueued once, never early, and only while its schedule exists and is not paused."""

    world: World
    plans: dict[str, SchedulePlan] = field(default_factory=dict)
    books: dict[str, Book] = field(default_factory=dict)
    ever: set[str] = field(default_factory=set)
    jobs: set[str] = field(default_factory=set)

    def looks(self, script: str, keys: Sequence[str]) -> list[Command]:
        """Read the states, and the job ids."""
        return [("HGETALL", _QUEUE.created), ("HKEYS", _QUEUE.jobs), ("ZRANGE", _QUEUE.looks, 0, -1)]

    def applied(self, step: Step) -> None:
        """Check a step."""
        stored, ids, looks = step.seen
        found = {key[1:].decode(): msgspec.msgpack.decode(value) for key, value in stored.items() if key[:1] == b"s"}
        now_there = {id.decode() for id in ids}
        new, wanted = now_there - self.jobs, set[str]()
        if twice := new & self.ever:
            raise Broken(f"{twice} was enqueued twice")
        today = step.now // 1000
        match step.script:
            case "schedules/create":
                self._create(step, today)
            case "schedules/delete":
                self.books.pop(str(step.args[1]), None)
            case "schedules/pause":
                self._pause(step, today)
            case "schedules/fire":
                wanted = self._fire(step, found, today)
        if new != wanted - self.ever:
            raise Broken(f"{step.script} enqueued {sorted(new)}, not {sorted(wanted)}")
        self.jobs = now_there
        self.ever |= new
        if {name: book.state() for name, book in self.books.items()} != found:
            raise Broken(f"{step.script}: it is {found}, not {self.books}")
        if {name.decode() for name in looks} != self.books.keys():
            raise Broken(f"{step.script}: {looks} are to be looked at, and {sorted(self.books)} exist")

    def _create(self, step: Step, today: int) -> None:
        name, plan = str(step.args[0]), self.plans[str(step.args[1])]
        book = self.books.get(name)
        if book is None:
            self.books[name] = Book(plan, plan.begin or today)
            return
        if book.plan.timing != plan.timing:
            book.cursor = plan.begin or max(book.cursor, today)
        book.plan = plan

    def _pause(self, step: Step, today: int) -> None:
        book, paused = self.books.get(str(step.args[0])), int(step.args[1])
        if book is not None and book.paused != paused:
            book.paused = paused
            if not paused:
                book.cursor = max(book.cursor, today)

    def _fire(self, step: Step, found: dict[str, Any], today: int) -> set[str]:
        wanted, at = set[str](), 1
        while at < len(step.args):
            name, cursor, upto = str(step.args[at]), int(step.args[at + 2]), int(step.args[at + 3])
            at += 9 + 2 * int(step.args[at + 7])
            book = self.books.get(name)
            if book is None or book.cursor != cursor or (name in found and found[name][2] == book.cursor):
                continue  # nothing has changed, or only the next look
            if book.paused or upto > today:
                raise Broken(f"{name} fires {'while it is paused' if book.paused else 'early'}")
            self._fired(book, name, upto, today, wanted)
            if name not in found:
                if book.plan.rules.after(upto) < NEVER:
                    raise Broken(f"{name} was deleted, and has more slots")
                del self.books[name]
        return wanted

    def _fired(self, book: Book, name: str, upto: int, today: int, wanted: set[str]) -> None:
        rules = book.plan.rules
        slots = rules.latest(book.cursor, upto, rules.catch_up + MOST_MISSED)
        book.missed += max(0, len(slots) - rules.catch_up)
        for slot in slots[-rules.catch_up :]:
            if rules.late_ms and today - slot > rules.late_ms:
                book.missed += 1
            elif not rules.overlap and (book.job in self.jobs or book.job in wanted):
                book.overlapped += 1
            else:
                book.job, book.slot, book.enqueued = slot_id(name, slot), slot, book.enqueued + 1
                wanted.add(book.job)
        book.cursor = upto

    def watch(self, tickers: dict[Task, bool], bound: int) -> None:
        """Check that no schedule is due for longer than `bound` (us) while a worker that can read it runs."""
        for name, book in self.books.items():
            late = self.world.server_now - book.plan.rules.after(book.cursor) * 1000
            late = min(late, self.world.now - self.world.stepped)
            if book.paused or late <= bound:
                continue
            for task, old in tickers.items():
                can_read = not (old and _NEWER in book.plan.definition)
                if can_read and task.undisturbed_since(self.world.now - late - 6 * SECOND) and not task.calling:
                    raise Broken(f"{task.name} sleeps, and {name} is due for {late / SECOND:.2f} s")


@dataclass
class Cast:
    """The processes of a run."""

    world: World
    checker: CreatedChecker
    tickers: dict[Task, bool] = field(default_factory=dict)
    """Whether each cannot read newer definitions."""
    numbers: itertools.count[int] = field(default_factory=itertools.count)

    def machine(self, *, old: bool) -> None:
        """Start a worker without schedules in its code."""
        process = self.world.process(f"v{next(self.numbers)}")
        ticker = Ticker(_QUEUE, [], _read_old if old else slot_rules)

        def tick(task: Task) -> Actor:
            self.tickers[task] = old
            beat_at, changes, turn_at = 0.0, 0, 0.0
            while True:
                now = yield Clock()
                try:
                    if now >= beat_at:
                        answer = yield from leases.beat(_QUEUE, {process.name: beat_at == 0}, 15_000, 0.5)
                        beat_at = now + _BEAT
                        if answer.schedule_changes != changes:
                            changes, turn_at = answer.schedule_changes, 0.0
                            ticker.look()
                    if now >= turn_at:
                        pause = yield from ticker.turn()
                        turn_at = 1e12 if pause is None else (yield Clock()) + pause
                except LockworkError:
                    turn_at = (yield Clock()) + 0.5
                    beat_at = min(beat_at, turn_at)
                text = yield Park(_QUEUE.schedules, min(turn_at, beat_at))
                if text:
                    turn_at = 0.0
                    ticker.look()

        self.world.start(process, "tick", tick, background=True)

    def worker(self) -> Actor:
        """End the enqueued jobs."""
        while True:
            yield Sleep(self.world.random.choice([0.5, 2, 5]))
            for id in list(self.checker.jobs):
                self.world.server.command("HDEL", _QUEUE.jobs, id)
                self.world.server.command("LREM", _QUEUE.ready[1], 0, id)
                self.checker.jobs.discard(id)

    def user(self) -> Actor:
        """Create, change, pause, resume and delete schedules."""
        random = self.world.random
        for number in range(random.randint(4, 14)):
            with suppress(LockworkError, Cancelled):
                yield Sleep(random.choice([0.01, 0.3, 2, 6]))
                name, what = random.choice(_NAMES), random.choice("cccmpprd")
                if what in "cm":
                    yield from self._create(name, moment=what == "m", body=str(number % 2))
                elif what == "d":
                    yield from created.delete(_QUEUE, name)
                else:
                    yield from schedules.pause(_QUEUE, name, paused=what == "p")

    def _create(self, name: str, *, moment: bool, body: str) -> Actor:
        plan = _plan(name, self.world.random.choice(_OPTIONS), body)
        if moment:
            base = _plan(name, {"every": 1})
            at = base.rules.after(self.world.server_now // 1000 + 1000)
            plan = _moment(name, at)
        self.checker.plans[plan.digest] = plan
        yield from created.create(_QUEUE, name, plan.digest, plan.timing, plan.definition, plan.record, plan.begin)

    def judge(self) -> Actor:
        """Check that no worker misses a slot."""
        mix = self.world.mix
        # a worker notices a step of the server's clock when it declares its schedules
        bound = (600 if mix.quiet else 25_000 if mix.back or mix.forth else 8000) * MS
        while not self.world.calm:
            self.checker.watch(self.tickers, bound)
            yield Sleep(0.1)
        self.machine(old=False)
        yield Sleep(30)
        for _ in range(100):
            self.checker.watch(self.tickers, bound)
            yield Sleep(0.1)


def _moment(name: str, at: int) -> SchedulePlan:
    return _plan(name, {"at": datetime.fromtimestamp(at / 1000, UTC)})


RELEASED = Build()
MUTANTS = (
    Build(
        "no worker is notified", (("schedules/parts/changes", "if looking then return end", "if true then return end"),)
    ),
    Build("a resumed one is not looked at", (("schedules/pause", "look_now(name, now_ms)", ""),)),
    Build("overlaps", (("schedules/parts/jobs", "redis.call('HEXISTS', jobs, id) == 1", "false"),)),
    Build(
        "resumes at the slot of the pause", (("schedules/pause", "math.max(known[CURSOR], now_ms)", "known[CURSOR]"),)
    ),
)
"""The model has the others."""


def run(server: Server, seed: int, build: Build = RELEASED) -> World:
    """Users and workers at one queue; raises Broken."""
    world = World(server, seed, build, Mix(slow=0.1) if seed % 4 == 0 else None)
    random = world.random
    checker = CreatedChecker(world)
    cast = Cast(world, checker)
    world.checker = checker

    def kill() -> None:
        alive = [process for process in world.processes if process.alive and process.name.startswith("v")]
        if alive:
            world.kill(random.choice(alive))
            old = random.random() < 0.5
            world.after(random.randint(0, 8 * SECOND), lambda: cast.machine(old=old))

    for number in range(random.randint(1, 3)):
        cast.machine(old=number > 0 and random.random() < 0.5)
    judges = world.process("judge")
    world.start(judges, "worker", lambda _: cast.worker(), background=True)
    for number in range(random.randint(1, 2)):
        world.start(world.process(f"u{number}"), "user", lambda _: cast.user())
    world.start(judges, "judge", lambda _: cast.judge())
    incidents(world, kill, 20 * SECOND, lambda: [process for process in world.processes if process.name[0] == "v"])
    return finished(world, seed, 25, 2000)
