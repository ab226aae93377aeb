"""What a benchmark returns, and how it measures: ours and the floor take turns, and the best round of each counts.

The machine may be shared and noisy. Rounds that take turns meet the same noise, and the best one has the least of it;
so the ratio of the two says more than either figure.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table; `goal` is a value of `ours`, or of `ours / floor` if `goal_is_ratio`."""

    name: str
    unit: str
    ours: float
    floor: float
    floor_is: str
    goal: float
    goal_is_ratio: bool = False
    less_is_better: bool = False

    @property
    def ratio(self) -> float:
        """Ours as a share of the floor."""
        return self.ours / self.floor

    @property
    def reached(self) -> bool:
        """Whether the goal is reached."""
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

    def best(self, ours: Callable[[], float], floor: Callable[[], float]) -> tuple[float, float]:
        """Let both take turns; returns the highest value of each."""
        rounds = [(ours(), floor()) for _ in range(self.rounds)]
        return max(mine for mine, _ in rounds), max(bare for _, bare in rounds)
