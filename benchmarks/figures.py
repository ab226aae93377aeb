"""What a benchmark returns, and how it measures: ours, the floor and other libraries take turns, the best round counts.

The machine may be shared and noisy. Rounds that take turns meet the same noise, and the best one has the least of it;
so the ratio of two figures says more than either.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self


class Best(float):
    """The best of several rounds, which are kept."""

    rounds: tuple[float, ...]

    def __new__(cls, rounds: Sequence[float], best: float) -> Self:
        """Keep the rounds with their best value."""
        value = super().__new__(cls, best)
        value.rounds = tuple(rounds)
        return value


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table; `goal` is a value of `ours`, or of `ours / floor` if `goal_is_ratio`, or None."""

    name: str
    unit: str
    ours: float
    floor: float
    floor_is: str
    goal: float | None
    goal_is_ratio: bool = False
    less_is_better: bool = False
    others: tuple[tuple[str, float], ...] = ()
    """The same figure of other libraries, measured in the same run."""

    @property
    def ratio(self) -> float:
        """Ours as a share of the floor."""
        return self.ours / self.floor if self.floor else float("nan")

    @property
    def spread(self) -> tuple[float, float] | None:
        """The lowest and the highest ratio of one round, whose measurements took turns; None if there was one round."""
        ours, floor = getattr(self.ours, "rounds", ()), getattr(self.floor, "rounds", ())
        ratios = [mine / bare for mine, bare in zip(ours, floor, strict=False) if bare]
        return (min(ratios), max(ratios)) if len(ratios) > 1 else None

    @property
    def reached(self) -> bool | None:
        """Whether the goal is reached."""
        if self.goal is None:
            return None
        value = self.ratio if self.goal_is_ratio else self.ours
        return value <= self.goal if self.less_is_better else value >= self.goal


@dataclass(frozen=True, slots=True)
class Bench:
    """Where and how much to measure."""

    url: str
    rounds: int
    scale: float

    def count(self, usual: int) -> int:
        """How many operations a round has."""
        return max(10, int(usual * self.scale))

    def seconds(self, usual: float, least: float) -> float:
        """How long a round lasts."""
        return max(least, usual * self.scale)

    def best(self, *contestants: Callable[[], float]) -> list[Best]:
        """Let all take turns; returns the highest value of each."""
        rounds = [[measure() for measure in contestants] for _ in range(self.rounds)]
        return [Best(values, max(values)) for values in zip(*rounds, strict=True)]


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which that share of the values lies; infinite when there are none."""
    if len(values) < 2:
        return values[0] if values else math.inf
    return statistics.quantiles(values, n=1000, method="inclusive")[int(share * 1000) - 1]


def jain(counts: Sequence[float]) -> float:
    """Jain's index of fairness: 1 when all got the same, 1/n when one got everything."""
    return sum(counts) ** 2 / (len(counts) * sum(count * count for count in counts))
