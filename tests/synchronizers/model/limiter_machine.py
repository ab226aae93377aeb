"""A plain Python model of the limiter: the slot of each request, in exact fractions."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from lockwork.protocol import keys
from lockwork.protocol.effects import script_call
from lockwork.protocol.synchronizers import limiter
from lockwork.protocol.synchronizers.limiter import Algorithm, LimiterRules, Rate
from models.bench import CHANNEL, SECOND, Bench

_KEYS = keys.limiter("sim", "a")
_REMEMBERED = 60 * SECOND
"""Microseconds after its slot during which the server surely remembers a request."""


@dataclass
class Booked:
    """A booked slot. `before`: time when a bucket would be full without this booking and all later ones."""

    request: str
    n: int
    slot: int
    before: Fraction = Fraction(0)
    fixed: bool = False
    """True if the slot was booked at an earlier rate."""


def _place(booked: list[Booked], request: str) -> int | None:
    return next((at for at, one in enumerate(booked) if one.request == request), None)


@dataclass
class Bucket:
    """A bucket whose units return evenly. `full` is the time (us) when all units are back."""

    count: int
    period: int
    limit: int
    full: Fraction = Fraction(0)
    booked: list[Booked] = field(default_factory=list)

    def span(self, n: int) -> Fraction:
        return Fraction(n * self.period, self.count)

    def slot(self, now: int, n: int) -> tuple[int, Fraction]:
        full = max(self.full, Fraction(now)) + self.span(n)
        return max(now, self.last, math.ceil(full - self.span(self.limit))), full

    @property
    def last(self) -> int:
        return self.booked[-1].slot if self.booked else 0

    def book(self, request: str, now: int, n: int) -> int:
        at, full = self.slot(now, n)
        self.booked.append(Booked(request, n, at, self.full))
        self.full = full
        return at

    def _follow(self, at: int, full: Fraction) -> str | None:
        """Store `full` in the booking at this index, or in the bucket after the last one. Return its request."""
        if at == len(self.booked):
            self.full = full
            return None
        self.booked[at].before = full
        return self.booked[at].request

    def give_back(self, request: str) -> tuple[bool, str | None]:
        at = _place(self.booked, request)
        if at is None or self.booked[at].fixed:
            return False, None
        return True, self._follow(at, self.booked.pop(at).before)

    def move_up(self, request: str, now: int) -> tuple[int, str | None]:
        at = _place(self.booked, request)
        assert at is not None
        mine = self.booked[at]
        full = max(mine.before, Fraction(now)) + self.span(mine.n)
        before = self.booked[at - 1].slot if at else 0
        slot = max(now, before, math.ceil(full - self.span(self.limit)))
        if mine.fixed or mine.slot <= now or slot >= mine.slot:
            return mine.slot, None
        mine.slot = slot
        return slot, self._follow(at + 1, full)

    def available(self, now: int) -> int:
        return max(n for n in range(self.limit + 1) if not n or self.slot(now, n)[0] <= now)

    def full_at(self) -> int:
        return math.ceil(self.full)

    def change(self, now: int, count: int, period: int, limit: int) -> None:
        # the server rounds only here, up and by less than two microseconds; the model does it in the same way
        ratio = _time(period, count) / _time(self.period, self.count)
        base = max(now, self.last)
        if ratio != 1:
            for booked in self.booked:
                booked.fixed = True
        if self.full > base and ratio != 1:
            self.full = Fraction(base + math.ceil((math.ceil(self.full) - base) * ratio))
        self.count, self.period, self.limit = count, period, limit


def _time(period: int, count: int) -> float:
    unit = Fraction(period, count)
    whole, rest = divmod(unit.numerator, unit.denominator)
    return whole + rest / unit.denominator


@dataclass
class Window:
    """A window with at most `limit` units in any period."""

    count: int
    period: int
    limit: int
    booked: list[Booked] = field(default_factory=list)
    """Bookings in order of their slots."""

    def slot(self, now: int, n: int) -> int:
        return self._slot(self.booked, now, n)

    def _slot(self, booked: list[Booked], now: int, n: int) -> int:
        at = max(now, booked[-1].slot if booked else 0)
        while self._used(booked, at) + n > self.limit:
            at = min(one.slot for one in booked if one.slot > at - self.period) + self.period
        return at

    def _used(self, booked: list[Booked], at: int) -> int:
        return sum(one.n for one in booked if one.slot > at - self.period)

    def book(self, request: str, now: int, n: int) -> int:
        at = self.slot(now, n)
        self.booked.append(Booked(request, n, at))
        return at

    def give_back(self, request: str) -> tuple[bool, str | None]:
        at = _place(self.booked, request)
        if at is None:
            return False, None
        self.booked.pop(at)
        return True, self.booked[at].request if at < len(self.booked) else None

    def move_up(self, request: str, now: int) -> tuple[int, str | None]:
        at = _place(self.booked, request)
        assert at is not None
        mine = self.booked[at]
        if mine.slot <= now or mine.n > self.limit:
            return mine.slot, None
        slot = self._slot(self.booked[:at], now, mine.n)
        if slot >= mine.slot:
            return mine.slot, None
        mine.slot = slot
        return slot, self.booked[at + 1].request if at + 1 < len(self.booked) else None

    def available(self, now: int) -> int:
        if self.booked and self.booked[-1].slot > now:
            return 0
        return max(0, self.limit - self._used(self.booked, now))

    def full_at(self) -> int:
        return self.booked[-1].slot + self.period if self.booked else 0

    def change(self, now: int, count: int, period: int, limit: int) -> None:
        self.count, self.period, self.limit = count, period, limit


class LimiterMachine(RuleBasedStateMachine):
    """Callers and a clock. `kind` is the algorithm."""

    kind: Algorithm = "bucket"
    rates: tuple[tuple[int, int, int], ...] = ((7, SECOND, 4), (3, SECOND, 1), (7, SECOND, 6), (2, 5 * SECOND, 3))

    def __init__(self, bench: Bench) -> None:
        super().__init__()
        self.bench = bench
        self.limits = self._limits(*self.rates[0])
        self.model: Any = (Bucket if self.kind == "bucket" else Window)(*self.rates[0])
        self.requests: list[str] = []
        self.slots: dict[str, int] = {}

    def _limits(self, count: int, period: int, limit: int) -> LimiterRules:
        depth = limit if self.kind == "bucket" else count
        return LimiterRules(_KEYS, "a", "as the test says", self.kind, count, period, depth)

    def _take(self, request: str, n: int, wait: int) -> list[int]:
        call = script_call("synchronizers/limiter_take", _KEYS, [self.limits.rule, request, n, wait, CHANNEL])
        reply: list[int] = self.bench.call(call)
        return reply

    @rule(n=st.integers(1, 4), wait=st.sampled_from([-1, 0, 400_000, 2 * SECOND]), twice=st.booleans())
    def take(self, n: int, wait: int, twice: bool) -> None:
        n = min(n, self.limits.limit)
        request = f"r{len(self.slots)}"
        code, ahead, now = self._take(request, n, wait)
        assert now == self.bench.now
        slot = self.model.slot(now, n)
        at = slot[0] if isinstance(slot, tuple) else slot
        assert ahead == at - now, "the first free moment, to the microsecond"
        assert code == (0 if 0 <= wait < at - now else 1), "booked if and only if the caller would wait for it"
        if code:
            self.model.book(request, now, n)
            self.requests.append(request)
            self.slots[request] = at
        if code and twice:
            self._again(request, n, wait)

    def _again(self, request: str, n: int, wait: int) -> None:
        del self.bench.messages[:]
        code, ahead, now = self._take(request, n, wait)
        self.slots[request], behind = self.model.move_up(request, now)
        assert (code, ahead) == (1, max(0, self.slots[request] - now)), "it takes once, and moves up as far as it may"
        self._told(behind)

    def _told(self, behind: str | None) -> None:
        """Check that the request behind a moved or removed booking is notified if it still waits."""
        waits = behind is not None and self.slots[behind] > self.bench.now
        assert self.bench.messages == ([(CHANNEL, f"{_KEYS[0]}:{behind}")] if waits else []), "who is behind looks"

    @precondition(lambda self: self.requests)
    @rule(data=st.data(), twice=st.booleans())
    def give_back(self, data: st.DataObject, twice: bool) -> None:
        """Return one of the last bookings. No other slot changes."""
        request = data.draw(st.sampled_from(self.requests[-5:]))
        if self.slots[request] <= self.bench.now - _REMEMBERED:
            return
        del self.bench.messages[:]
        reply = self.bench.call(script_call("synchronizers/limiter_return", _KEYS, [request]))
        given_back, behind = self.model.give_back(request)
        assert reply == given_back, "what others were told stays true"
        self._told(behind)
        if reply:
            self.requests.remove(request)
            if twice:
                assert self.bench.call(script_call("synchronizers/limiter_return", _KEYS, [request])) == 0, (
                    "given back once"
                )

    @precondition(lambda self: self.requests)
    @rule(data=st.data())
    def sent_again(self, data: st.DataObject) -> None:
        """Repeat a call after other calls, or ask again to get an earlier slot."""
        self._again(data.draw(st.sampled_from(self.requests[-5:])), 1, data.draw(st.sampled_from([0, -2])))

    @rule(chosen=st.sampled_from(range(4)))
    def change(self, chosen: int) -> None:
        """Change the rate with the next call. Used units stay used."""
        before, self.limits = self.limits, self._limits(*self.rates[chosen])
        request = f"c{len(self.slots)}"
        code, ahead, now = self._take(request, 1, -1)
        if before.rule != self.limits.rule:
            self.model.change(now, *self.rates[chosen][:2], self.limits.limit)
        at = self.model.book(request, now, 1)
        assert (code, ahead) == (1, at - now), "a new rate keeps what was used and promised"
        self.requests.append(request)
        self.slots[request] = at

    @rule(microseconds=st.sampled_from([1, 142_857, 500_000, SECOND, 3 * SECOND, 20 * SECOND]))
    def wait(self, microseconds: int) -> None:
        self.bench.now += microseconds

    @rule()
    def look(self) -> None:
        found = self.bench.run(limiter.status(self.limits))
        now = self.bench.now
        assert found.available == self.model.available(now)
        assert found.full_in == max(0, self.model.full_at() - now) / SECOND


class WindowMachine(LimiterMachine):
    """A limiter with a window instead of a bucket."""

    kind = "window"
    rates = ((4, SECOND, 4), (6, SECOND, 6), (3, SECOND, 3), (4, SECOND, 4))


@dataclass
class Several:
    """Several buckets or windows, `kinds` of one kind. A booking is the first moment when all of them allow it."""

    parts: list[Any]

    @property
    def booked(self) -> list[Booked]:
        booked: list[Booked] = self.parts[0].booked
        return booked

    @property
    def windows(self) -> bool:
        return isinstance(self.parts[0], Window)

    def slot(self, now: int, n: int) -> int:
        return self._slot(self.parts, now, n)

    def _slot(self, parts: list[Any], now: int, n: int) -> int:
        at = now
        while True:
            slots = [part.slot(at, n) for part in parts]
            later = max(slot if isinstance(slot, int) else slot[0] for slot in slots)
            if later <= at:
                return at
            at = later

    def book(self, request: str, now: int, n: int) -> int:
        at = self.slot(now, n)
        for part in self.parts:
            part.book(request, at, n)
        return at

    def give_back(self, request: str) -> tuple[bool, str | None]:
        replies: list[tuple[bool, str | None]] = [part.give_back(request) for part in self.parts]
        return replies[0]

    def move_up(self, request: str, now: int) -> tuple[int, str | None]:
        at = _place(self.booked, request)
        assert at is not None
        mine = self.booked[at]
        if mine.slot <= now:
            return mine.slot, None
        before: list[Any] = []
        for part in self.parts:
            booked = part.booked[:at]
            if isinstance(part, Window):
                before.append(Window(part.count, part.period, part.limit, booked))
            else:
                before.append(Bucket(part.count, part.period, part.limit, part.booked[at].before, booked))
        slot = self._slot(before, now, mine.n)
        if slot >= mine.slot:
            return mine.slot, None
        behind = None
        for part, earlier in zip(self.parts, before, strict=True):
            part.booked[at].slot = slot
            if isinstance(part, Bucket):
                behind = part._follow(at + 1, earlier.slot(slot, mine.n)[1])
            elif at + 1 < len(part.booked):
                behind = part.booked[at + 1].request
        return slot, behind

    def available(self, now: int) -> int:
        return min(int(part.available(now)) for part in self.parts)

    def full_at(self) -> int:
        return max(int(part.full_at()) for part in self.parts)


class SeveralMachine(LimiterMachine):
    """A limiter with three rates at once, which do not change."""

    all_rates: tuple[tuple[int, int, int], ...] = ((4, SECOND, 4), (9, 5 * SECOND, 9), (20, 30 * SECOND, 20))

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        kind: Any = Bucket if self.kind == "bucket" else Window
        self.model = Several([kind(*rate) for rate in self.all_rates])

    def _limits(self, count: int, period: int, limit: int) -> LimiterRules:
        first, *others = (Rate(*rate) for rate in self.all_rates)
        return LimiterRules(_KEYS, "a", "as the test says", self.kind, *first, tuple(others))


class SeveralWindowsMachine(SeveralMachine):
    """The same with windows."""

    kind = "window"
