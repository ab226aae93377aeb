"""Pauses between the attempts of a failed job."""

from __future__ import annotations

import pytest

from lockwork import backoff
from lockwork.runtime import trying


@pytest.mark.parametrize(
    ("attempt", "full"), [(1, 1.0), (2, 2.0), (3, 4.0), (10, 512.0), (13, 3600.0), (10_000, 3600.0)]
)
def test_backoff_doubles_up_to_an_hour_with_half_as_jitter(attempt: int, full: float) -> None:
    drawn = [backoff.delay(attempt, 1.0) for _ in range(500)]
    assert min(drawn) >= full / 2
    assert max(drawn) <= full
    assert max(drawn) - min(drawn) > full / 4


def test_zero_backoff_retries_at_once() -> None:
    assert {backoff.delay(attempt, 0.0) for attempt in (1, 5, 500)} == {0.0}


def test_call_is_repeated_after_at_most_half_a_second() -> None:
    for tries in (0, 1, 5, 40, 2_000):
        drawn = [trying.backoff(tries) for _ in range(200)]
        assert min(drawn) >= 0.005
        assert max(drawn) <= 0.5
