"""Histograms of times: how far their quantiles are from the exact ones, and that they can be merged."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockwork import ConfigError
from lockwork.protocol.metrics.metrics import PER_OCTAVE, Times, bucket
from lockwork.telemetry.metrics import Histogram

_TIMES = st.lists(st.integers(1, 2**40 - 1), min_size=1, max_size=200)
_BOUND = 2 ** (1 / (2 * PER_OCTAVE)) + 1e-9
"""A quantile is the middle of its bucket: so it differs from the true one by half a bucket at most, 9.1 %."""


def histogram(*groups: list[int]) -> Histogram:
    """A histogram of all these times, one worker's merged into the other's."""
    merged = Times()
    for group in groups:
        times = Times()
        for each in group:
            times.add(each)
        merged.merge(Times.read(times.packed()))
    return Histogram(merged)


@given(_TIMES, st.floats(0, 1))
def test_quantile_is_near_the_exact_one(times: list[int], q: float) -> None:
    exact = sorted(times)[max(0, math.ceil(q * len(times)) - 1)] / 1e6
    found = histogram(times).quantile(q)
    assert found is not None
    assert 1 / _BOUND <= found / exact <= _BOUND


@given(_TIMES, _TIMES, st.lists(st.integers(0, 10**9), max_size=20))
def test_merged_is_the_histogram_of_all(one: list[int], two: list[int], three: list[int]) -> None:
    merged, whole = histogram(one, two, three), histogram([*one, *two, *three])
    assert merged.buckets() == whole.buckets()
    assert (
        (merged.count, merged.sum) == (whole.count, whole.sum) == (len(one + two + three), sum(one + two + three) / 1e6)
    )


@given(st.floats(0, 2**40))
def test_bucket_holds_its_times(microseconds: float) -> None:
    number = bucket(microseconds)
    assert (2 ** (number / PER_OCTAVE) <= microseconds * (1 + 1e-9)) or number == 0
    assert microseconds * (1 - 1e-9) < 2 ** ((number + 1) / PER_OCTAVE)


def test_ends() -> None:
    empty = histogram([])
    assert (empty.count, empty.sum, empty.quantile(0.5), empty.buckets()) == (0, 0, None, [])
    assert bucket(0) == bucket(0.5) == bucket(1) == 0
    assert bucket(2**60) == bucket(2**41) == 160
    with pytest.raises(ConfigError, match="from 0 to 1, not 50"):
        histogram([1]).quantile(50)
    assert repr(histogram([1_000_000, 500_000])) == "Histogram(count=2, sum=1.5)"
