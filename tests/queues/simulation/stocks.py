"""Stocks in the simulator: buyers that reserve, wait, confirm and release under faults, and the rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from lockwork.errors import LockworkError, ReservationEnded
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.stock import stock
from lockwork.protocol.stock.stock import StockRules
from simulator.faults import MS, SECOND, Mix
from simulator.load import crowd
from simulator.process import Actor, Cancelled, Process, Sleep, Task
from simulator.runs import RELEASED, finished, incidents
from simulator.server import Build, Command, Server
from simulator.world import Broken, Step, World

_LINE = "stock/parts/waiters"
_LEFT = "if on_sale < units then"
_EARLIER = "local earlier = earlier_reservation(id, buyer, key)"
MUTANTS = (
    Build("oversells", (("stock/reserve", _LEFT, "if on_sale + 1 < units then"),)),
    Build("reserves twice", (("stock/reserve", _EARLIER, "local earlier = false"),)),
    Build("gives back twice", (("stock/parts/stock", "redis.call('HDEL', stock, 'r' .. id)", "local _"),)),
    Build("expired units stay held", (("stock/parts/stock", "'-inf', clock, 'LIMIT'", "'-inf', 0, 'LIMIT'"),)),
    Build(
        "holds for as long as the clock was set back", (("stock/parts/stock", "tonumber(newest_us or 0) - now)", "0)"),)
    ),
    Build("no waiter is granted units", (("stock/end", "\nreserve_for_waiters()\nreturn DONE", "\nreturn DONE"),)),
    Build("notifies no waiter", ((_LINE, "publish(waiter.channel, id)", "local _"),)),
)


@dataclass
class Checker:
    """Checks every step by a count of the reservations."""

    world: World
    rules: StockRules
    added: dict[str, int] = field(default_factory=dict)
    waiting: dict[Task, tuple[int, int]] = field(default_factory=dict)
    """Number of units that each task waits for, and the true time of its start."""
    free_since: dict[int, int] = field(default_factory=dict)
    """True time since this number of units is free."""

    def looks(self, script: str, keys: Sequence[str]) -> list[Command]:
        """Read the counts, and all reservations."""
        books = self.rules.queue.stock(self.rules.name)
        return [("HGETALL", books[0]), ("ZRANGE", books[1], 0, -1, "WITHSCORES")]

    def applied(self, step: Step) -> None:
        """Check a step."""
        if step.script == "stock/state" and step.args[2] and step.reply[5]:
            self.added.setdefault(str(step.args[2]), int(step.args[1]))
        found, holds = step.seen
        fields = {name.decode(): value for name, value in found.items()} if isinstance(found, dict) else {}
        if "total" not in fields:
            return
        total, sold, held = (int(fields[name]) for name in ("total", "sold", "held"))
        units = [int(value) for name, value in fields.items() if name.startswith("b")]
        if total != self.rules.total + sum(self.added.values()):
            raise Broken(f"{total} units in all, not {self.rules.total} and {self.added}")
        if sold + held > total or min(sold, held) < 0 or sum(units) != sold + held:
            raise Broken(f"{step.script}: {sold} sold and {held} held of {total}, {units} by buyer")
        if max(units, default=0) > self.rules.limit:
            raise Broken(f"{step.script}: a buyer has more than {self.rules.limit}")
        kept = sum(name.startswith("r") for name in fields)
        if (sold + held > 0) != (kept > 0) or len(holds) > kept:
            raise Broken(f"{step.script}: {kept} reservations, {len(holds)} of them held, for {sold + held} units")
        if step.script not in {"stock/reservation", "stock/extend"}:
            late = [id for id, ends in holds if ends <= step.now]
            if late:
                raise Broken(f"{late} have run out and are held after {step.script}")
        free = total - sold - held
        self.free_since = {n: self.free_since.get(n, step.true) for n in range(1, free + 1)}

    def watch(self) -> None:
        """Check that no buyer waits long while enough units are free."""
        quiet = self.world.mix.quiet
        for task, (n, began) in self.waiting.items():
            if n not in self.free_since:
                continue
            ready = max(self.free_since[n], began)
            bound = 300 * MS if quiet else 6 * SECOND
            if self.world.now - ready > bound and task.undisturbed_since(ready - 6 * SECOND) and not task.calling:
                raise Broken(f"{task.name} waits for {n}, and so many are free for {self.world.now - ready} us")


@dataclass
class Buyers:
    """The buyers of a run."""

    world: World
    checker: Checker
    ids: int = 0

    def buyer(self, task: Task, turns: int) -> Actor:
        """Buy several times."""
        for turn in range(turns):
            yield Sleep(self.world.random.choice([0.0, self.world.random.uniform(0, 3)]))
            try:
                yield from self._buy(task, f"{task.name}.{turn}")
            except (Cancelled, LockworkError) as error:
                self.world.note(task.name, f"gives up: {type(error).__name__}")
            finally:
                self.checker.waiting.pop(task, None)

    def _buy(self, task: Task, id: str) -> Actor:
        random, rules = self.world.random, self.checker.rules
        name, n = task.name.replace("/", "-"), random.randint(1, 2)
        hold = random.choice([1500, 6000, 60_000])
        wait = random.choice([0, random.uniform(0, 6), random.uniform(0, 20)])
        if wait:
            self.checker.waiting[task] = n, self.world.now
            channel = task.process.channel
            held = yield from stock.reserve_waiting(rules, id, name, n, hold, "", None, channel=channel, wait=wait)
        else:
            held = yield from stock.reserve(rules, id, name, n, hold, "", None)
        self.checker.waiting.pop(task, None)
        yield Sleep(random.choice([0.0, random.uniform(0, 3)]))
        step = random.random()
        if step < 0.2:
            yield from stock.extend(rules, held.id, 5000)
        if step < 0.5:
            yield from stock.release(rules, held.id, None)
            return
        try:
            yield from stock.confirm(rules, held.id, None)
        except ReservationEnded:
            return
        yield Sleep(random.uniform(0, 2))
        if random.random() < 0.7:
            yield from stock.refund(rules, held.id, None)

    def keeper(self, task: Task, turns: int) -> Actor:
        """Put units on sale, and take them off."""
        for turn in range(turns):
            yield Sleep(self.world.random.uniform(0, 6))
            try:
                n = self.world.random.choice([1, 1, -1])
                yield from stock.status(self.checker.rules, n, f"{task.name}.{turn}")
            except (Cancelled, LockworkError) as error:
                self.world.note(task.name, f"gives up: {type(error).__name__}")

    def judge(self, task: Task) -> Actor:
        """Check the waiting buyers until the faults are over, then that no expired reservation is held."""
        while not self.world.calm:
            self.checker.watch()
            yield Sleep(0.1)
        yield Sleep(70)
        found = yield from stock.status(self.checker.rules)
        if found.reserved:
            raise Broken(f"{found} although all has run out")


def stocks(server: Server, seed: int, build: Build = RELEASED) -> World:
    """Buyers of three processes at one stock; raises Broken."""
    # a quarter of the runs has no faults: no task may be late there
    world = World(server, seed, build, Mix(slow=0.1, twice=0.2) if seed % 4 == 0 else None)
    random = world.random
    checker = Checker(world, StockRules(QueueKeys("sim", "q"), "phone", random.randint(1, 4), 2))
    buyers = Buyers(world, checker)
    world.checker = checker

    def populate(process: Process) -> None:
        for number in range(random.randint(1, 3)):
            world.start(process, f"b{number}", partial(buyers.buyer, turns=random.randint(1, 5)))
        if process.name == "p0":
            world.start(process, "keeper", partial(buyers.keeper, turns=3))

    kill = crowd(world, populate, gap=3 * SECOND)
    world.start(world.process("judge"), "judge", buyers.judge)
    incidents(world, kill, 15 * SECOND)
    return finished(world, seed, 25, 200)
