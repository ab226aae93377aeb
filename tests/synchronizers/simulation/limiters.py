"""Limiters in the simulator: callers that wait, do not wait, are cancelled and die, and the rules."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from itertools import accumulate

from lockwork.errors import LockworkError, RateLimited
from lockwork.protocol import keys
from lockwork.protocol.synchronizers import limiter
from lockwork.protocol.synchronizers.limiter import LimiterRules
from simulator.faults import MS, SECOND
from simulator.load import crowd
from simulator.process import Actor, Cancelled, Process, Sleep, Task
from simulator.runs import RELEASED, finished, incidents
from simulator.server import Build, Command, Server
from simulator.world import Broken, Step, World

_PART = "synchronizers/parts/limiter"
_AFRESH = (
    "if stored_text ~= text then\n"
    "state.count, state.dropped = tonumber(count), tonumber(count)\n"
    "state.last, state.full, state.part = 0, 0, 0 return state end if true then"
)
MUTANTS = (
    Build(
        "waits for as long as the clock was set back",
        (("synchronizers/parts/limiter", "tonumber(newest or 0) - server_now)", "0)"),),
    ),
    Build(
        "books slots without a waiter",
        (("synchronizers/limiter_take", "at - now > wait then", "at - now > wait + 50000 then"),),
    ),
    Build(
        "moves up beside those before it",
        (("synchronizers/limiter_take", "full = entry.full_before, part", "full = 0, part"),),
    ),
    Build(
        "moves up beside others in a window",
        (("synchronizers/limiter_take", "count = score - entry.units", "count = score - 2 * entry.units"),),
    ),
    Build(
        "frees its slot twice",
        (
            (
                "synchronizers/limiter_take",
                "update_next(state, rank + 1, full, part, levels)",
                "update_next(state, rank + 1, 0, 0)",
            ),
        ),
    ),
    Build(
        "returns slots that others have booked",
        (("synchronizers/limiter_return", "state.count - entry.units", "state.count - entry.units - 1"),),
    ),
    Build("a bucket that is never empty", ((_PART, "if full < now then", "if true then"),)),
    Build("forgets too early", ((_PART, "slot_us + rule.period)", "slot_us + rule.period / 2)"),)),
    Build("never rests", ((_PART, "if full < now then full, part = now, 0 end", ""),)),
    Build(
        "a new rate starts afresh",
        (
            (
                _PART,
                "if stored_text == text then",
                _AFRESH,
            ),
        ),
    ),
    Build("a limiter without an expiry", ((_PART, "redis.call('PEXPIRE', log, ms)", ""),)),
)


@dataclass
class _Booked:
    n: int
    slot: int
    """Server time."""


@dataclass
class Callers:
    """The callers of a run, and the requests that they booked, used and returned."""

    world: World
    rules: list[LimiterRules]
    booked: dict[str, _Booked] = field(default_factory=dict)
    """Bookings by request, in order of arrival."""
    went: set[str] = field(default_factory=set)
    returned: set[str] = field(default_factory=set)

    def caller(self, task: Task, turns: int) -> Actor:
        """Acquire several times, now and then more than one unit, now and then without patience."""
        random = self.world.random
        for turn in range(turns):
            yield Sleep(random.choice([0.0, 0.0, random.uniform(0, 0.5), random.uniform(0, 3)]))
            chosen = random.choice(self.rules)
            request = f"{task.name}.{turn}"
            wait = random.choice([None, None, 0, random.uniform(0, 2)])
            n = random.randint(1, min(3, chosen.limit))
            try:
                yield from limiter.acquire(chosen, request, n, wait, task.process.channel)
            except (Cancelled, LockworkError) as error:
                self.world.note(task.name, f"does not go: {type(error).__name__}")
                if isinstance(error, RateLimited) and request in self.booked:
                    raise Broken(f"{request} was refused, and its units are booked") from error
            else:
                self._goes(task, request)

    def _goes(self, task: Task, request: str) -> None:
        self.world.note(task.name, "goes")
        self.went.add(request)
        if request not in self.booked or request in self.returned:
            raise Broken(f"{request} goes without a booking")
        early = self.booked[request].slot - self.world.server_now
        if early > 0 and not self.world.ahead:
            raise Broken(f"{request} goes {early} us too early")


@dataclass
class Checker:
    """Checks every step against the server's bookings, in server time."""

    world: World
    callers: Callers

    def looks(self, script: str, keys: Sequence[str]) -> list[Command]:
        """Read the expiry of the keys, and the limiter's clock."""
        return [*(("PTTL", key) for key in keys), ("HMGET", keys[0], "n", "o")]

    def applied(self, step: Step) -> None:
        """Check a step."""
        *expiries, (newest, ahead) = step.seen
        if -1 in expiries:
            raise Broken("a key has no expiry")
        # the limiter stores a clock, which continues when the server's clock is set back
        clock = max(step.now + int(ahead or 0), int(newest or 0))
        if step.script == "synchronizers/limiter_return":
            self._returned(str(step.args[0]), given_back=bool(step.reply))
            return
        request, n, wait = str(step.args[1]), int(step.args[2]), int(step.args[3])
        code, wait_for, _ = step.reply
        known = self.callers.booked.get(request)
        if known is not None:
            self._met(request, known, code, wait, clock, clock + wait_for)
        elif code == 1:
            if wait == -2:
                raise Broken(f"{request} wanted only to move up, and was booked")
            if 0 <= wait < wait_for:
                raise Broken(f"{request} would not wait {wait_for} us")
            self.callers.booked[request] = _Booked(n, clock + wait_for)
            self._judge(request)
        elif wait != -2 and not 0 <= wait < wait_for:
            raise Broken(f"{request} was refused although it would wait")

    def _met(self, request: str, known: _Booked, code: int, wait: int, clock: int, slot: int) -> None:
        """Check a request that already has a slot. It may move to an earlier slot while it waits."""
        if (code, wait) == (0, -2) and known.slot <= clock:
            return  # its slot passed when the clock was set forward, and the server has deleted it
        if code != 1 or slot > max(clock, known.slot):
            raise Broken(f"{request} took twice: {known}, then {slot} with {code}")
        if slot < known.slot:
            known.slot = slot
            self._judge(request)

    def _returned(self, request: str, *, given_back: bool) -> None:
        if not given_back:
            return
        if request in self.callers.went:
            raise Broken(f"{request} went, and its units were given back")
        if self.callers.booked.pop(request, None) is None:
            raise Broken(f"{request} was given back twice")
        self.callers.returned.add(request)

    def _judge(self, request: str) -> None:
        """Check that a request keeps its order, and that no time span with its slot exceeds the rate."""
        requests, all_booked = list(self.callers.booked), list(self.callers.booked.values())
        place = requests.index(request)
        slots = [booked.slot for booked in all_booked]
        if slots[max(0, place - 1) : place + 2] != sorted(slots[max(0, place - 1) : place + 2]):
            raise Broken(f"{request} overtakes, or is overtaken: {slots}")
        rules = self.callers.rules
        most = max(rule.limit for rule in rules)
        rate = max(Fraction(rule.count, rule.period) for rule in rules)
        sums = list(accumulate((booked.n for booked in all_booked), initial=0))
        for first in range(place, -1, -1):
            for last in range(place, len(slots)):
                span = slots[last] - slots[first]
                window = rules[0].algorithm == "window"
                if window and span >= rules[0].period:
                    break
                # a slot is a whole microsecond, up to one later than the exact moment
                allowed = most if window else most + math.floor((span + 1) * rate)
                if sums[last + 1] - sums[first] > allowed:
                    raise Broken(f"{sums[last + 1] - sums[first]} units within {span} us, from {first} to {last}")

    def at_end(self) -> None:
        """Check that a limiter has all of its units after an hour without calls."""
        for rule in self.callers.rules:
            state = self.world.build.script("synchronizers/limiter_state")
            # the limiter's clock may be behind, because no call measured the last time before a clock step
            rested = self.world.server_now + 3600 * SECOND
            units, left, _ = self.world.server.run(state, rule.keys, [rule.rule], rested).reply
            if (units, left) != (rule.limit, 0):
                raise Broken(f"after an hour of rest there are {units} of {rule.limit} units, and {left} us to wait")


def limiters(server: Server, seed: int, build: Build = RELEASED) -> World:
    """Callers of three processes at one limiter, in some runs with two different rates; raises Broken."""
    world = World(server, seed, build)
    random = world.random
    opinions = 2 if random.random() < 0.3 else 1
    at = keys.limiter("sim", "a")
    rules = []
    for _ in range(opinions):
        if seed % 2:
            count = random.choice([3, 5, 7])
            rules.append(LimiterRules(at, "a", "as drawn", "window", count, SECOND, count))
        else:
            count, limit = random.choice([3, 7, 10]), random.choice([1, 3, 5])
            rules.append(LimiterRules(at, "a", "as drawn", "bucket", count, random.choice([SECOND, 700 * MS]), limit))
    callers = Callers(world, rules)
    checker = Checker(world, callers)
    world.checker = checker

    def populate(process: Process) -> None:
        for number in range(random.randint(2, 4)):
            world.start(process, f"c{number}", partial(callers.caller, turns=random.randint(3, 7)))

    incidents(world, crowd(world, populate), 8 * SECOND)
    return finished(world, seed, 15, 200, checker.at_end)
