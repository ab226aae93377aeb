"""Partitions of one queue alternate, and together have the share of one queue."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockwork.protocol.keys import QueueKeys
from lockwork.worker.execution import queue_state
from lockwork.worker.execution.queue_state import FetchOrder, QueueState


@pytest.fixture(autouse=True, scope="module")
def short_turns() -> Iterator[None]:
    """Make each call a turn, except in tests that set turns."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(queue_state, "TURN", 0.0)
        yield


def family(name: str, partitions: int, weight: int = 1, turns: list[float] | None = None) -> list[QueueState]:
    nobody: Any = None
    return [
        QueueState(
            f"{name}/{number}",
            QueueKeys("lw", f"{name}/{number}"),
            nobody,
            weight,
            name,
            turns[number] if turns else number / partitions,
        )
        for number in range(partitions)
    ]


def served(
    made: list[QueueState], rounds: list[tuple[int, set[int]]], allot: FetchOrder
) -> list[tuple[list[str], str]]:
    """Serve queues that never run empty; return the awake queues and the first queue of each round."""
    found = []
    for places, asleep in rounds:
        awake = [source for at, source in enumerate(made) if at not in asleep]
        if not awake:
            continue
        first, most = allot(awake, places)[0]
        first.credit -= most
        found.append(([source.name for source in awake], first.name))
    return found


def longest_wait(found: list[tuple[list[str], str]]) -> int:
    """Return the longest series of rounds that skipped an awake queue; sleep ends a series."""
    waits: Counter[str] = Counter()
    longest = 0
    for awake, first in found:
        for name in list(waits):
            if name not in awake:
                del waits[name]
        for name in awake:
            waits[name] = 0 if name == first else waits[name] + 1
        longest = max(longest, *waits.values())
    return longest


ROUNDS = st.lists(st.tuples(st.integers(1, 20), st.sets(st.integers(0, 4))), max_size=80)


@given(ROUNDS, st.lists(st.floats(0, 1), min_size=5, max_size=5))
def test_partitions_with_jobs_are_not_starved(rounds: list[tuple[int, set[int]]], turns: list[float]) -> None:
    """Each other partition comes first at most once in between, and once more after sleep."""
    found = served(family("mail", 5, turns=turns), rounds, queue_state.strict_in_turn)
    assert longest_wait(found) <= 8


def test_starvation_check_catches_strict_order() -> None:
    rounds: list[tuple[int, set[int]]] = [(10, set())] * 30
    assert longest_wait(served(family("mail", 4), rounds, queue_state.strict)) == 30
    assert longest_wait(served(family("mail", 4), rounds, queue_state.strict_in_turn)) == 3


def test_partitions_keep_the_order_of_their_queue() -> None:
    sources = [*family("mail", 3), *family("news", 2)]
    for _ in range(10):
        asked = [source.name for source, _ in queue_state.strict_in_turn(sources, 5)]
        assert {name.partition("/")[0] for name in asked[:3]} == {"mail"}
        assert sorted(asked) == sorted(source.name for source in sources)


def test_partition_stays_the_first_for_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Repeated calls to one partition profit from the server's caches."""
    clock = [100.0]
    monkeypatch.setattr(queue_state, "TURN", 0.02)
    monkeypatch.setattr(queue_state, "now", lambda: clock[0])
    sources = family("mail", 3)

    def first() -> str:
        clock[0] += 0.008
        return queue_state.strict_in_turn(sources, 5)[0][0].name

    assert [first() for _ in range(7)] == [*["mail/0"] * 3, *["mail/1"] * 3, "mail/2"]
    sources.pop()  # the queue sleeps, so its turn ends
    assert [first() for _ in range(4)] == [*["mail/0"] * 3, "mail/1"]


def test_partitions_named_one_by_one_keep_their_order() -> None:
    sources = [QueueState(f"mail/{number}", QueueKeys("lw", f"mail/{number}"), None, 1) for number in range(3)]  # type: ignore[arg-type]
    for _ in range(5):
        assert [source.name for source, _ in queue_state.strict_in_turn(sources, 5)] == ["mail/0", "mail/1", "mail/2"]


def shared(sources: list[QueueState], rounds: int, places: int, allot: FetchOrder) -> Counter[str]:
    got: Counter[str] = Counter()
    for _ in range(rounds):
        for source, most in allot(sources, places):
            source.credit -= most
            got[source.name] += most
    return got


@given(st.integers(1, 16), st.integers(1, 5), st.integers(1, 30))
def test_partitions_share_the_weight_of_their_queue(partitions: int, weight: int, places: int) -> None:
    sources = [*family("mail", partitions, weight), *family("news", 1, 2)]
    got = shared(sources, 200, places, queue_state.by_weight_in_turn)
    share = 200 * places * weight / (weight + 2)
    mail = [got[f"mail/{number}"] for number in range(partitions)]
    assert abs(sum(mail) - share) <= partitions + 1
    assert max(mail) - min(mail) <= 3


def test_share_check_catches_weights_by_partition() -> None:
    sources = [*family("mail", 16), *family("news", 1)]
    assert shared(sources, 100, 10, queue_state.by_weight)["news/0"] < 100
    sources = [*family("mail", 16), *family("news", 1)]
    assert abs(shared(sources, 100, 10, queue_state.by_weight_in_turn)["news/0"] - 500) <= 17


def test_fetch_order_depends_on_weights_and_partitions() -> None:
    chosen = [
        queue_state.chosen(weighted=weighted, in_turn=turn) for weighted in (False, True) for turn in (False, True)
    ]
    assert chosen == [
        queue_state.strict,
        queue_state.strict_in_turn,
        queue_state.by_weight,
        queue_state.by_weight_in_turn,
    ]
