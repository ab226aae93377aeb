"""Division of free slots among queues: in strict order, or by weight without starvation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from lockwork.protocol.keys import QueueKeys
from lockwork.worker.execution import queue_state
from lockwork.worker.execution.queue_state import FetchOrder, QueueState


def queue_states(*weights: int) -> list[QueueState]:
    no_runner: Any = None
    return [
        QueueState(f"q{number}", QueueKeys("lw", f"q{number}"), no_runner, weight)
        for number, weight in enumerate(weights)
    ]


def served(made: list[QueueState], rounds: list[int], allot: FetchOrder) -> Counter[str]:
    """Serve queues that never run empty."""
    served_jobs: Counter[str] = Counter()
    for places in rounds:
        remaining = places
        for source, most in allot(made, places):
            taken = min(most, remaining)
            remaining -= taken
            source.credit -= taken
            served_jobs[source.name] += taken
        assert not remaining, "a place stayed free although every queue had jobs"
    return served_jobs


WEIGHTS = st.lists(st.integers(1, 50), min_size=1, max_size=6)
ROUNDS = st.lists(st.integers(1, 40), min_size=1, max_size=60)


def off_by(weights: list[int], rounds: list[int], allot: FetchOrder) -> float:
    """Return the largest difference between a queue's jobs and its share."""
    served_jobs = served(queue_states(*weights), rounds, allot)
    shares = [sum(rounds) * weight / sum(weights) for weight in weights]
    return max(abs(share - served_jobs[f"q{number}"]) for number, share in enumerate(shares))


@given(WEIGHTS, ROUNDS)
def test_weighted_shares_are_exact_within_a_few_jobs(weights: list[int], rounds: list[int]) -> None:
    assert off_by(weights, rounds, queue_state.by_weight) <= len(weights)


def forgets(awake: Any, places: int) -> list[tuple[QueueState, int]]:
    """Mutant: forgets fractions of slots, so a light queue starves."""
    for source in awake:
        source.credit = 0.0
    return queue_state.by_weight(awake, places)


def test_starvation_mutant_is_caught() -> None:
    assert off_by([1, 20], [1] * 100, forgets) > 2
    assert off_by([1, 20], [1] * 100, queue_state.by_weight) <= 2


def test_empty_queue_saves_no_share() -> None:
    light, heavy = queue_states(1, 1)
    for _ in range(100):
        queue_state.by_weight([heavy], 10)
        heavy.credit -= 10
    assert [most for _, most in queue_state.by_weight([light, heavy], 10)] == [5, 5]


def test_strict_order_serves_first_queue_first() -> None:
    rounds: Callable[[FetchOrder], Counter[str]] = lambda allot: served(queue_states(1, 1), [3, 4], allot)  # noqa: E731
    assert rounds(queue_state.strict) == Counter(q0=7)
