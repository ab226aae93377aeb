"""Which queue gets the free places: strictly in order, or by weight without starving anybody."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from lockwork.protocol.keys import QueueKeys
from lockwork.worker.execution import queue_state
from lockwork.worker.execution.queue_state import FetchOrder, QueueState


def sources(*weights: int) -> list[QueueState]:
    nobody: Any = None
    return [
        QueueState(f"q{number}", QueueKeys("lw", f"q{number}"), nobody, weight) for number, weight in enumerate(weights)
    ]


def served(made: list[QueueState], rounds: list[int], allot: FetchOrder) -> Counter[str]:
    """Serve queues that never run empty."""
    got: Counter[str] = Counter()
    for places in rounds:
        left = places
        for source, most in allot(made, places):
            taken = min(most, left)
            left -= taken
            source.credit -= taken
            got[source.name] += taken
        assert not left, "a place stayed free although every queue had jobs"
    return got


WEIGHTS = st.lists(st.integers(1, 50), min_size=1, max_size=6)
ROUNDS = st.lists(st.integers(1, 40), min_size=1, max_size=60)


def off_by(weights: list[int], rounds: list[int], allot: FetchOrder) -> float:
    """How far the worst served queue is from its share, in jobs."""
    got = served(sources(*weights), rounds, allot)
    shares = [sum(rounds) * weight / sum(weights) for weight in weights]
    return max(abs(share - got[f"q{number}"]) for number, share in enumerate(shares))


@given(WEIGHTS, ROUNDS)
def test_each_gets_its_share_to_within_a_few_jobs(weights: list[int], rounds: list[int]) -> None:
    assert off_by(weights, rounds, queue_state.by_weight) <= len(weights)


def forgets(awake: Any, places: int) -> list[tuple[QueueState, int]]:
    """The mutant: what is no whole place is thrown away, so a light queue starves."""
    for source in awake:
        source.credit = 0.0
    return queue_state.by_weight(awake, places)


def test_the_check_catches_a_queue_that_starves() -> None:
    assert off_by([1, 20], [1] * 100, forgets) > 2
    assert off_by([1, 20], [1] * 100, queue_state.by_weight) <= 2


def test_an_empty_queue_saves_no_share() -> None:
    light, heavy = sources(1, 1)
    for _ in range(100):
        queue_state.by_weight([heavy], 10)
        heavy.credit -= 10
    assert [most for _, most in queue_state.by_weight([light, heavy], 10)] == [5, 5]


def test_in_strict_order_the_first_gets_all_it_has_jobs_for() -> None:
    rounds: Callable[[FetchOrder], Counter[str]] = lambda allot: served(sources(1, 1), [3, 4], allot)  # noqa: E731
    assert rounds(queue_state.strict) == Counter(q0=7)
