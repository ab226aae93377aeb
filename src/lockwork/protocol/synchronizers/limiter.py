"""The limiter: one call books units for the first free moment, and the caller waits until then.

Bucket: units return one at a time, evenly, up to `limit`; times have fractions of a microsecond, so rates do not drift.
Window: at most `limit` units in any period, from an exact log.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from fractions import Fraction
from typing import Any, Literal, NamedTuple

from msgspec import Struct

from lockwork import words
from lockwork.errors import ConfigError, LockworkError, RateLimited
from lockwork.protocol import messages
from lockwork.protocol.effects import Argument, Clock, Protocol, concurrently, script_call
from lockwork.protocol.index import index
from lockwork.protocol.keys import LimiterKeys
from lockwork.protocol.keys import limiter as limiter_keys
from lockwork.protocol.names import display, shown, typed
from lockwork.protocol.retry import undo
from lockwork.protocol.scripts import codes

Algorithm = Literal["bucket", "window"]
_OTHER: dict[Algorithm, Algorithm] = {"bucket": "window", "window": "bucket"}
_RECHECK = 5.0
"""Seconds until a waiting caller checks if it can move up, because the wake-up or its booking may be lost."""
_BOOK_NOTHING = -2
"""Wait time of a call that books nothing and only moves up."""
_PERIODS = {1_000_000: "s", 60_000_000: "m", 3_600_000_000: "h", 86_400_000_000: "d"}
_AGAIN = 1.0
"""Seconds to retry while the server is unreachable, for a caller that would not wait for units."""


class Rate(NamedTuple):
    """One of several rates of a limiter; see LimiterRules."""

    units: int
    period: int
    limit: int


class LimiterRules(Struct, frozen=True):
    """One limiter: its keys, its name, and its rule; `shown` is the rate as the user wrote it."""

    keys: LimiterKeys
    name: str
    shown: str
    algorithm: Algorithm
    count: int
    """Number of units that return, or that are permitted, in each `period`."""
    period: int
    """Length of the period in microseconds."""
    limit: int
    """Largest number of units at once: the bucket's size, or a window's count."""
    others: tuple[Rate, ...] = ()
    """Further rates, which also hold; none has a smaller limit."""

    @property
    def rule(self) -> str:
        """The stored form of the rules. For a bucket, it has the time per unit in whole microseconds and a fraction."""
        first = Rate(self.count, self.period, self.limit)
        return " ".join([_stored(self.algorithm, rate) for rate in (first, *self.others)])


def _stored(algorithm: Algorithm, rate: Rate) -> str:
    if algorithm == "window":
        return f"w:0:0:1:{rate.limit}:{rate.period}"
    shared = math.gcd(rate.period, rate.units)
    parts = rate.units // shared
    whole, rest = divmod(rate.period // shared, parts)
    return f"b:{whole}:{rest}:{parts}:{rate.limit}:0"


@dataclass(frozen=True, slots=True)
class LimiterStatus:
    """`available` of `limit` units are free now; all units are free in `full_in` seconds if no caller takes any."""

    available: int
    limit: int
    full_in: float


@dataclass(frozen=True, slots=True)
class LimiterSummary:
    """One limiter of a list, with its current rule; it is deleted some minutes after it is full again."""

    name: str
    algorithm: Algorithm
    rate: str
    """Several rates are separated by ", "."""
    available: int
    """Number of free units."""
    limit: int
    """Largest number of units at once."""
    full_in: float
    """Seconds until the full limit is free, if no caller takes units."""
    waiting: int
    """Number of callers that wait for their slot."""
    last_in: float
    """Seconds until the slot of the last waiting caller."""


@dataclass(frozen=True, slots=True)
class LimiterOverview:
    """The matching limiters, by name; `complete` is True if no matching limiter is missing."""

    limiters: tuple[LimiterSummary, ...]
    complete: bool


def acquire(limits: LimiterRules, request: str, n: int, wait: float | None, channel: str) -> Protocol[None]:
    """Take `n` units, and wait for their slot.

    A message on `channel` is a hint that the caller may move up. When interrupted, it returns the units. If the server
    loses the booking, the caller books again within seconds. Raises RateLimited at once when the slot is more than
    `wait` seconds ahead.
    """
    wait_us = -1 if wait is None else math.floor(wait * 1_000_000)
    patience = None if wait is None else max(wait, _AGAIN)
    ticket = f"{limits.keys.limiter}:{request}"
    try:
        began = yield Clock()
        until = yield from _book(limits, request, n, wait_us, channel, patience)
        hints = messages.Hints()
        while (now := (yield Clock())) < until:
            hint = yield from messages.listen(hints, ticket, min(until, now + _RECHECK), key=limits.keys.limiter)
            if hint or now + _RECHECK < until:
                moved = yield from _move_up(limits, request, n, channel, until)
                if moved is None:
                    # the server has lost its data
                    passed = math.ceil(((yield Clock()) - began) * 1_000_000)
                    remaining_us = wait_us if wait is None else max(0, wait_us - passed)
                    moved = yield from _book(limits, request, n, remaining_us, channel, patience)
                until = moved
    except (GeneratorExit, RateLimited, ConfigError):
        raise
    except BaseException as error:
        # if the server is unreachable, the units stay booked, so no caller gets an early slot
        yield from undo(script_call("synchronizers/limiter_return", limits.keys, [request]), error)
        raise


def _book(
    limits: LimiterRules, request: str, n: int, wanted: int, channel: str, patience: float | None
) -> Protocol[float]:
    """Book units, and return the time of their slot.

    Raises RateLimited if the slot is more than `wanted` µs ahead, unless that is -1.
    """
    args: list[Argument] = [limits.rule, request, n, wanted, channel]
    code, ahead, _ = yield script_call("synchronizers/limiter_take", limits.keys, args, patience, ordered=True)
    if code == codes("synchronizers/limiter_take").not_booked:
        raise RateLimited(_refusal(limits, n, ahead / 1_000_000), ahead / 1_000_000)
    if code == codes("synchronizers/limiter_take").other_algorithm:
        raise _mixed(limits)
    # counted from the reply: counted from the start of the call, it could be too early
    now: float = yield Clock()
    return now + float(ahead) / 1_000_000


def _move_up(limits: LimiterRules, request: str, n: int, channel: str, until: float) -> Protocol[float | None]:
    """Request an earlier slot, and return its time, or `until`, the time of the current slot.

    Return None if the server no longer has the booking.
    """
    patience = min(until - (yield Clock()), _AGAIN)
    if patience <= 0:
        return until
    args: list[Argument] = [limits.rule, request, n, _BOOK_NOTHING, channel]
    try:
        code, ahead, _ = yield script_call("synchronizers/limiter_take", limits.keys, args, patience, brief=True)
    except LockworkError:
        return until
    results = codes("synchronizers/limiter_take")
    if code == results.not_booked:
        return None
    return min(until, (yield Clock()) + ahead / 1_000_000) if code == results.booked else until


def status(limits: LimiterRules) -> Protocol[LimiterStatus]:
    """Read the number of free units."""
    available, full, _ = yield script_call("synchronizers/limiter_state", limits.keys, [limits.rule])
    if available < 0:
        raise _mixed(limits)
    return LimiterStatus(available, limits.limit, full / 1_000_000)


def overview(prefix: str, pattern: str, most: int) -> Protocol[LimiterOverview]:
    """Find limiters whose names match, and read up to `most` of the most recently used."""
    whole_name = display(typed(pattern))
    names = list(map(shown, (yield from index.read(prefix, index.LIMITERS))))
    matching = [name for name in names if fnmatchcase(name, pattern) or name == whole_name]
    summaries: list[LimiterSummary] = []
    while matching and len(summaries) < most:
        some, matching = matching[:most], matching[most:]
        read = yield from concurrently([_summarized(prefix, name) for name in some])
        summaries += [each for each in read if each is not None]
    complete = not matching and len(summaries) <= most and len(names) < index.LIMITERS.most
    return LimiterOverview(tuple(sorted(summaries[:most], key=lambda each: each.name)), complete)


def _summarized(prefix: str, name: str) -> Protocol[LimiterSummary | None]:
    reply = yield script_call("synchronizers/limiter_state", limiter_keys(prefix, typed(name)), [""])
    return _summary(name, reply) if reply else None


def _summary(name: str, reply: list[Any]) -> LimiterSummary:
    available, full, _, rule, waiting, last = reply
    rules = [each.split(":") for each in rule.decode().split(" ")]
    kind, *_, limit, _ = rules[0]
    algorithm: Algorithm = "bucket" if kind == "b" else "window"
    rate = ", ".join(map(_rate_of, rules))
    return LimiterSummary(name, algorithm, rate, available, int(limit), full / 1_000_000, waiting, last / 1_000_000)


def _rate_of(rule: Sequence[str]) -> str:
    kind, whole, rest, parts, limit, period = rule
    if kind == "b":
        return _rate(Fraction(int(whole) * int(parts) + int(rest), int(parts)))
    return f"{limit}/{_PERIODS.get(int(period)) or f'{int(period) / 1_000_000:g}s'}"


def _rate(unit: Fraction) -> str:
    """Return a bucket's rate in the form that users write; the server stores only the time per unit, in µs."""
    for period, letter in _PERIODS.items():
        count = period / unit
        if count.denominator == 1:
            return f"{count}/{letter}"
    return f"1/{float(unit) / 1_000_000:g}s"


def _refusal(limits: LimiterRules, n: int, ahead: float) -> str:
    units = "" if n == 1 else f"{n} units of "
    again = words.time_left(ahead)
    return f"{units}limiter {limits.name!r} ({limits.shown}): no free units within the wait; try again in {again}"


def _mixed(limits: LimiterRules) -> ConfigError:
    other = _OTHER[limits.algorithm]
    return ConfigError(
        f"limiter {limits.name!r} is in use as a {other}, and this handle says {limits.algorithm}: "
        f"use the same algorithm everywhere, or wait until the {other} is full again"
    )
