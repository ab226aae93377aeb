"""The limiter: `with lw.limiter("api", "100/s")`."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from msgspec.structs import replace

from lockwork import durations
from lockwork.config import Config
from lockwork.durations import Duration, seconds
from lockwork.errors import ConfigError, RateLimited
from lockwork.ids import new_id
from lockwork.locks.decorator import Decorating
from lockwork.naming import has_braces, warn_of_template
from lockwork.protocol import keys, names
from lockwork.protocol.effects import Protocol
from lockwork.protocol.synchronizers import limiter as limiter_protocol
from lockwork.protocol.synchronizers.limiter import Algorithm, LimiterOverview, LimiterRules, LimiterStatus, Rate
from lockwork.runtime.runtime import Runtime
from lockwork.validation import whole

_ALGORITHMS: tuple[Algorithm, ...] = ("bucket", "window")
_LONGEST = 366 * 86400 * 1_000_000
_MOST_RATES = 10
_WINDOW = 100_000
"""Units in a window: its log has an entry for each call in the period."""


class Limiter(Decorating):
    """A handle to one named limiter; threads and tasks may share it.

    `with` and `async with` take one unit, and so does each call of a function that it decorates.
    """

    def __init__(
        self,
        runtime: Runtime,
        config: Config,
        name: str,
        rate: str | Sequence[str],
        burst: int | None,
        algorithm: Algorithm,
    ) -> None:
        self._runtime = runtime
        self._prefix = config.prefix
        self.name: str = names.checked_name(name, "a limiter's name")
        self._braced = has_braces(name)
        rates = rates_of(rate, burst)
        self._limits = _limits(keys.limiter(config.prefix, name), names.display(name), rates, burst, algorithm)
        self.rate: str = ", ".join(rates)

    def acquire(self, n: int = 1, wait: Duration | None = None) -> None:
        """Take `n` units and wait until they are free; callers are served in order of arrival.

        Raises RateLimited at once, and takes nothing, if they will not be free within `wait` (None: no limit, 0: now).
        """
        self._runtime.run(self._acquire(n, wait))

    async def aacquire(self, n: int = 1, wait: Duration | None = None) -> None:
        """Async version of `acquire`; if cancelled, it returns the units, and the waiters behind it move up."""
        await self._runtime.arun(self._acquire(n, wait))

    def try_acquire(self, n: int = 1) -> bool:
        """Take `n` units if they are free now; otherwise take nothing and return False."""
        try:
            self.acquire(n, wait=0)
        except RateLimited:
            return False
        return True

    async def atry_acquire(self, n: int = 1) -> bool:
        """Async version of `try_acquire`."""
        try:
            await self.aacquire(n, wait=0)
        except RateLimited:
            return False
        return True

    def inspect(self) -> LimiterStatus:
        """Read the number of free units, and the time until all units are free."""
        return self._runtime.run(limiter_protocol.status(self._checked()))

    async def ainspect(self) -> LimiterStatus:
        """Async version of `inspect`."""
        return await self._runtime.arun(limiter_protocol.status(self._checked()))

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """A unit that was used comes back by time alone."""

    async def __aenter__(self) -> Self:
        await self.aacquire()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """A unit that was used comes back by time alone."""

    def _acquire(self, n: int, wait: Duration | None) -> Protocol[None]:
        limits = self._checked()
        if isinstance(n, bool) or not isinstance(n, int) or n < 1:
            raise ConfigError(f"n must be a whole number of at least 1, not {n!r}")
        if n > limits.limit:
            most = "a burst of" if limits.algorithm == "bucket" else "a window of"
            raise ConfigError(f"limiter {limits.name!r} has {most} {limits.limit}: {n} units can never be free at once")
        patience = None if wait is None else seconds(wait, "wait", zero=True)
        return limiter_protocol.acquire(limits, new_id(), n, patience, self._runtime.channel)

    def _checked(self) -> LimiterRules:
        if self._braced:
            warn_of_template(self.name, self._what())
        return self._limits

    @classmethod
    def _what(cls) -> str:
        return "a limiter's name"

    def _named(self, name: str) -> Self:
        named = copy.copy(self)
        limits = replace(self._limits, keys=keys.limiter(self._prefix, name), name=names.display(name))
        named.name, named._braced, named._limits = name, False, limits  # noqa: SLF001 - a handle like this one
        return named

    def __repr__(self) -> str:
        return f"<Limiter {self._limits.name!r} {self._limits.shown}>"


def rates_of(given: str | Sequence[str], burst: int | None = None) -> tuple[str, ...]:
    """Return the rates of a limiter; raises ConfigError for an empty list, or for several rates with a burst."""
    if not isinstance(given, list | tuple):
        return (given,)  # type: ignore[return-value]  # its type is checked with its text
    if not 1 <= len(given) <= _MOST_RATES:
        raise ConfigError(f"a limiter has 1 to {_MOST_RATES} rates, not {len(given)}")
    if burst is not None and len(given) > 1:
        raise ConfigError("burst is for a single rate: each of several rates allows its own units at once")
    return tuple(given)


def _limits(
    at: keys.LimiterKeys, name: str, rates: Sequence[str], burst: int | None, algorithm: Algorithm
) -> LimiterRules:
    if algorithm not in _ALGORITHMS:
        raise ConfigError(f"a limiter's algorithm is 'bucket' or 'window', not {algorithm!r}")
    # in a fixed order, so that the order in the code does not matter
    first, *others = sorted(
        {_rate(rate, burst, algorithm) for rate in rates}, key=lambda each: (each.limit, each.period)
    )
    shown = rates[0] if len(rates) == 1 else ", ".join(rates)
    rule_text = shown if burst is None else f"{shown}, burst {burst}"
    return LimiterRules(at, name, rule_text, algorithm, *first, tuple(others))


def _rate(rate: str, burst: int | None, algorithm: Algorithm) -> Rate:
    count, period = durations.parsed(rate)
    if algorithm == "window":
        if burst is not None:
            raise ConfigError("a window has no burst: it allows the rate's units in any period, in whatever order")
        if count > _WINDOW:
            raise ConfigError(f"a window counts at most {_WINDOW:,} units, each in a log: use a bucket for {rate!r}")
        return Rate(count, period, count)
    depth = count if burst is None else whole(burst, "burst", 1, durations.MOST)
    if depth * period > _LONGEST * count:
        raise ConfigError(f"a bucket of {depth:,} at {rate!r} would take more than 366 days to fill")
    return Rate(count, period, depth)


def read_limiters(prefix: str, pattern: str, limit: int) -> Protocol[LimiterOverview]:
    """Read recently used limiters; see `Lockwork.limiters`."""
    names.checked_name(pattern, "a pattern of limiters' names")
    return limiter_protocol.overview(prefix, pattern, whole(limit, "limit", 1, 10_000))
