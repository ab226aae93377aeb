"""The pause before a failed job's next attempt: exponential with jitter, a list of pauses, or a function."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lockwork.durations import Duration, seconds
from lockwork.errors import ConfigError

LONGEST = 3600.0


@dataclass(frozen=True, slots=True)
class Exponential:
    """Growing pauses: `base` before the first retry, then multiplied by `factor` each time, at most `longest`.

    `jitter`: the random part of each pause, 0 to 1, which spreads jobs that failed together.
    """

    base: Duration = 1.0
    factor: float = 2.0
    longest: Duration = LONGEST
    jitter: float = 0.5

    def __post_init__(self) -> None:
        object.__setattr__(self, "base", seconds(self.base, "base", zero=True))
        object.__setattr__(self, "longest", seconds(self.longest, "longest", zero=True))
        if not _between(1, self.factor, 1000):
            raise ConfigError(f"factor must be a number between 1 and 1000, not {self.factor!r}")
        if not _between(0, self.jitter, 1):
            raise ConfigError(f"jitter must be a number between 0 and 1, not {self.jitter!r}")


def _between(least: float, number: object, most: float) -> bool:
    return isinstance(number, int | float) and not isinstance(number, bool) and least <= number <= most


Backoff = Duration | Exponential | Sequence[Duration] | Callable[[int], Duration]
"""A backoff option; a duration is the base of an Exponential."""
Policy = float | Exponential | tuple[float, ...] | Callable[[int], Duration]
"""A checked backoff option; durations are in seconds."""


def read(given: Backoff) -> Policy:
    """Check a policy; raises ConfigError."""
    if isinstance(given, Exponential) or (callable(given) and not isinstance(given, type)):
        return given
    if isinstance(given, list | tuple):
        if not given:
            raise ConfigError("backoff is an empty list: it needs at least one pause")
        return tuple(seconds(pause, "backoff", zero=True) for pause in given)
    return seconds(given, "backoff", zero=True)  # type: ignore[arg-type]  # it refuses other types


def pause(attempt: int, policy: Policy) -> float:
    """Seconds before the attempt after number `attempt` (from 1); the last pause of a list stays."""
    if isinstance(policy, float | int):
        return delay(attempt, policy)
    if isinstance(policy, tuple):
        return policy[min(attempt, len(policy)) - 1]
    if isinstance(policy, Exponential):
        assert isinstance(policy.longest, float)
        assert isinstance(policy.base, float)
        full = min(policy.longest, policy.base * policy.factor ** min(attempt - 1, 100))
        return full * (1 - policy.jitter) + random.uniform(0, full * policy.jitter)  # noqa: S311 - spreads load
    return seconds(policy(attempt), "the result of the backoff function", zero=True)


def delay(attempt: int, base: float) -> float:
    """Seconds before the attempt after number `attempt` (from 1): doubles from `base` up to an hour, half of it jitter.

    Jitter spreads jobs that failed together ("equal jitter", AWS Architecture Blog, "Exponential Backoff And Jitter").
    """
    full = min(LONGEST, base * 2.0 ** min(attempt - 1, 30))
    return full / 2 + random.uniform(0, full / 2)  # noqa: S311 - spreads load, no secret
