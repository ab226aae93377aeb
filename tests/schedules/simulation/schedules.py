"""Schedules in the simulator: tickers of two versions of the code, an operator and a worker, with faults."""

from __future__ import annotations

import itertools
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random

from lockwork.errors import LockworkError
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import leases
from lockwork.protocol.queue.leases import Outcome
from lockwork.protocol.schedules import schedules
from lockwork.protocol.schedules.schedules import SchedulePlan, Ticker
from lockwork.schedules.options import ScheduleRules, ScheduleSettings
from lockwork.tasks.call import TaskCall
from schedules.simulation.schedule_checks import ScheduleChecker
from simulator.faults import MS, SECOND, Mix
from simulator.process import Actor, Cancelled, Sleep, Task
from simulator.runs import finished, incidents
from simulator.server import Build, Server
from simulator.world import Broken, World

_QUEUE = QueueKeys("sim", "a")
_KEPT = 90 * SECOND
_SHORT = (("schedules/parts/schedule", "KEPT = 20000, 60000, 86400000", f"KEPT = 20000, 60000, {_KEPT // MS}"),)
_WINDOW_MS = 3_600_000


def _plan(name: str, options: ScheduleSettings, body: str = "x") -> SchedulePlan:
    call = TaskCall(_QUEUE.base, f'1,4,,;["{body}",[]]'.encode(), 0)
    return ScheduleRules.read(options).plan(name, call)


_BOTH = (
    _plan("a", {"every": 2}),
    _plan("d", {"every": 3, "overlap": "skip"}),
)
VERSIONS = (
    (
        *_BOTH,
        _plan("b", {"every": 5, "misfire": "skip", "grace": 2}),
        _plan("c", {"every": 3, "misfire": "all", "catch_up": 4}),
        _plan("removed", {"every": 6}),
    ),
    (
        *_BOTH,
        _plan("b", {"every": 7, "misfire": "skip", "grace": 2}),
        _plan("c", {"every": 3, "misfire": "all", "catch_up": 4}, "y"),
        _plan("new", {"every": 4, "misfire": "all", "overlap": "skip"}),
    ),
)
"""The schedules of two versions of the code."""

RELEASED = Build(edits=_SHORT)


def _twin(name: str, *edits: tuple[str, str, str]) -> Build:
    return Build(name, (*_SHORT, *edits))


MUTANTS = (
    _twin(
        "neither compares the cursor nor recognizes its jobs",
        ("schedules/fire", "known[CURSOR] ~= tonumber(args[at + 2])", "false"),
        ("schedules/fire", "upto < least or", ""),
        (
            "queue/parts/push",
            "if not ended and redis.call('HSETNX', jobs, id, record) == 1 then",
            "redis.call('HSET', jobs, id, record) if true then",
        ),
    ),
    _twin("fires early", ("schedules/fire", "or upto > math.max(now_ms, known[CURSOR])", "")),
    _twin("does not move the cursor", ("schedules/fire", "known[CURSOR] = upto", "")),
    _twin("enqueues late slots", ("schedules/fire", "(late == 0 or now_ms - slot <= late)", "true")),
    _twin("enqueues paused schedules", ("schedules/fire", "known[PAUSED] == 0 and", "")),
    _twin("overlaps", ("schedules/parts/jobs", "redis.call('HEXISTS', jobs, id) == 1", "false")),
    _twin("overlaps with itself", ("schedules/parts/jobs", "jobs_of[id] or", "")),
    _twin("never runs again", ("schedules/parts/jobs", "redis.call('HEXISTS', jobs, id) == 1", "true")),
    _twin("fires another definition", ("schedules/fire", "known[DIGEST] == args[at + 1]", "true")),
    _twin("begins anew with every version", ("schedules/declare", "if fresh[TIMING] ~= timing then", "if true then")),
    _twin(
        "the old version is never replaced",
        ("schedules/declare", "if known and live and not joins then", "if known then"),
    ),
    _twin("every version is the newest", ("schedules/declare", "known and live and not joins", "false")),
    _twin("forgets a pause", ("schedules/declare", "local fresh = known or", "local fresh =")),
    _twin(
        "a lost schedule begins now",
        ("schedules/declare", "known_until > 0 and math.min(known_until, now_ms) or now_ms", "now_ms"),
    ),
    _twin("forgets no process", ("schedules/declare", "lived - KEPT, 'LIMIT'", "-1, 'LIMIT'")),
    _twin("forgets too soon", ("schedules/declare", "lived - KEPT, 'LIMIT'", "lived - 30000, 'LIMIT'")),
    _twin(
        "time passes while no process runs",
        ("schedules/declare", "math.min(now_ms - last, TURN)", "7 * (now_ms - last)"),
    ),
    _twin("leaves its clock behind", ("schedules/declare", "redis.call('DEL', schedules)", "")),
    _twin(
        "resumes at the slot of the pause",
        ("schedules/pause", "math.max(known[CURSOR], now_ms)", "known[CURSOR]"),
    ),
    _twin(
        "runs again when sent again",
        (
            "schedules/run",
            "if known[JOB] == id or redis.call('HEXISTS', jobs, id) == 1 or has_result(id) then",
            "if false then",
        ),
    ),
    _twin("runs beside itself", ("schedules/run", "alone and", "false and")),
)


@dataclass
class Cast:
    """The processes of a run."""

    world: World
    checker: ScheduleChecker
    tickers: dict[Task, Ticker] = field(default_factory=dict)
    numbers: itertools.count[int] = field(default_factory=itertools.count)

    def machine(self, version: int | None) -> None:
        """Start a process with this version of the code; None: without schedules."""
        process = self.world.process(f"v{version}-{next(self.numbers)}")
        ticker = Ticker(_QUEUE, [] if version is None else VERSIONS[version])

        def tick(task: Task) -> Actor:
            self.tickers[task] = ticker
            pause: float | None = 0.0
            while pause is not None:
                yield Sleep(pause)
                try:
                    pause = yield from ticker.turn()
                except LockworkError:
                    pause = 0.5

        self.world.start(process, "tick", tick, background=True)

    def worker(self) -> Actor:
        """Run the enqueued jobs, a few at a time, for up to four seconds."""
        random, session = self.world.random, "w/1/s"
        while True:
            with suppress(LockworkError):
                yield from leases.beat(_QUEUE, {session: True}, _WINDOW_MS, patience=5)
                break
        for request in itertools.count():
            try:
                batch = yield from leases.reserve(_QUEUE, session, 3, f"{request:x}", "")
            except LockworkError:
                continue
            yield Sleep(random.choice([0.1, 1, 4]))
            left = [Outcome(job.id, job.token, "s", b"1") for job in batch.jobs]
            while left:
                with suppress(LockworkError):
                    yield from leases.settle(_QUEUE, session, left, _WINDOW_MS)
                    left = []

    def operator(self) -> Actor:
        """Pause, resume and run now and then."""
        random = self.world.random
        for number in range(random.randint(0, 6)):
            with suppress(LockworkError, Cancelled):
                yield Sleep(random.uniform(0, 6))
                name = random.choice("abcd")
                what = random.choice(["pause", "resume", "run"])
                if what == "run":
                    overlap = name != "d"
                    yield from schedules.run_now(_QUEUE, name, f"{name}@now{number}", overlap=overlap)
                else:
                    yield from schedules.pause(_QUEUE, name, paused=what == "pause")

    def judge(self, kills: bool) -> Actor:
        """Check that no ticker misses a slot; then, if `kills`, end one version after the other and check the rest."""
        bound = (400 if self.world.mix.back == self.world.mix.forth == 0 else 2500) * MS
        while not self.world.calm:
            self.checker.watch(self.tickers, bound)
            yield Sleep(0.1)
        self.machine(1)
        yield Sleep(30)
        yield from self._everything_is_done(bound)
        if not kills:
            return
        self._kill("v0-")
        yield Sleep(90)
        for plan in VERSIONS[1]:
            if self.checker.books[plan.name].digest != plan.digest:
                raise Broken(f"the new {plan.name} is not in force")
        yield from self._everything_is_done(bound)
        yield Sleep(_KEPT / SECOND)
        if set(self.checker.books) != {plan.name for plan in VERSIONS[1]}:
            raise Broken(f"{sorted(self.checker.books)} are there")
        self._kill("v1-")
        yield Sleep(1000)
        if len(self.checker.books) != len(VERSIONS[1]):
            raise Broken("schedules were forgotten while nobody was there")
        self.machine(None)
        yield Sleep(_KEPT / SECOND + 60)
        if self.checker.books:
            raise Broken(f"{sorted(self.checker.books)} are never forgotten")

    def _everything_is_done(self, bound: int) -> Actor:
        yield Sleep(0)
        alive = {process.name[:3] for process in self.world.processes if process.alive}
        for name, book in self.checker.books.items():
            version = next(n for n, plans in enumerate(VERSIONS) for plan in plans if plan.digest == book.digest)
            if (f"v{version}-" in alive or name in "ad") and self.checker.due(name) > bound:
                raise Broken(f"{name} is due for {self.checker.due(name) / SECOND:.2f} s, and nobody cares")

    def _kill(self, begin: str) -> None:
        for process in self.world.processes:
            if process.alive and process.name.startswith(begin):
                self.world.kill(process)


def run(server: Server, seed: int, build: Build = RELEASED) -> World:
    """Tickers of two versions at one queue; raises Broken."""
    # a quarter of the runs has no faults: no task may be late there
    world = World(server, seed, build, Mix(slow=0.1) if seed % 4 == 0 else None)
    random = world.random
    plans = {plan.digest: plan for version in VERSIONS for plan in version}
    checker = ScheduleChecker(world, plans, _KEPT, _QUEUE.jobs)
    cast = Cast(world, checker)
    world.checker = checker

    def kill() -> None:
        alive = [process for process in world.processes if process.alive and process.name.startswith("v")]
        if alive:
            world.kill(random.choice(alive))
            newest = random.randint(0, 1)
            world.after(random.randint(0, random.choice([SECOND, 12 * SECOND])), lambda: cast.machine(newest))

    losses = Random(f"{seed} losses")  # its own generator keeps the losses out of a seed's other faults
    for _ in range(losses.choice([0, 0, 1, 2])):
        world.after(losses.randint(0, 60 * SECOND), checker.lose)
    for _ in range(random.randint(1, 2)):
        cast.machine(0)
    for _ in range(random.randint(0, 2)):
        world.after(random.randint(0, 15 * SECOND), lambda: cast.machine(1))
    judges = world.process("judge")
    world.start(judges, "worker", lambda _: cast.worker(), background=True)
    world.start(world.process("m"), "operator", lambda _: cast.operator())
    world.start(judges, "judge", lambda _: cast.judge(kills=seed % 8 < 2))
    incidents(world, kill, 20 * SECOND, lambda: [process for process in world.processes if process.name[0] == "v"])
    return finished(world, seed, 25, 2000)
