"""Durations as people write them."""

from __future__ import annotations

import math
from datetime import timedelta

import pytest

from lockwork.durations import in_milliseconds, milliseconds, parsed, seconds
from lockwork.errors import ConfigError


@pytest.mark.parametrize(
    ("duration", "expected"),
    [
        (3, 3.0),
        (0.25, 0.25),
        (timedelta(minutes=2, milliseconds=500), 120.5),
        ("10m", 600.0),
        ("1h30m", 5400.0),
        ("250ms", 0.25),
        ("1.5s", 1.5),
        (" 2d ", 172800.0),
        ("1w", 604800.0),
        ("366d", 366 * 86400.0),
    ],
)
def test_duration_is_converted_to_seconds(duration: float | timedelta | str, expected: float) -> None:
    assert seconds(duration, "wait") == pytest.approx(expected)


@pytest.mark.parametrize(
    "duration",
    [
        -1,
        -0.001,
        timedelta(seconds=-1),
        math.nan,
        math.inf,
        "367d",
        366 * 86400 + 1,
        pytest.param(10**400, id="more than a float"),
    ],
)
def test_out_of_range(duration: float | timedelta | str) -> None:
    with pytest.raises(ConfigError, match="wait must be between 0 and 366 days"):
        seconds(duration, "wait", zero=True)


@pytest.mark.parametrize("duration", ["", "10", "m", "ten minutes", "-1s", "1h 30m", "1e3s", "5y", "1 m", "1 M"])
def test_text_that_is_no_duration(duration: str) -> None:
    with pytest.raises(ConfigError, match='lease must be seconds, a timedelta or text such as "10m"'):
        seconds(duration, "lease")


@pytest.mark.parametrize(
    ("duration", "expected"),
    [("1M", "1m"), ("2D", "2d"), ("1H30M", "1h30m"), ("250MS", "250ms"), ("5S", "5s"), ("1Ms", "1ms")],
)
def test_capital_units_are_refused(duration: str, expected: str) -> None:
    with pytest.raises(ConfigError) as refused:
        seconds(duration, "delay")
    months = ' (months are days, such as "30d")' if "M" in duration else ""
    assert str(refused.value) == f"delay: units are lower-case: write \"{expected}\" for '{duration}'{months}"


@pytest.mark.parametrize("rate", ["5/M", "5/30S"])
def test_capital_units_of_rates_are_refused(rate: str) -> None:
    with pytest.raises(ConfigError, match="units are lower-case"):
        parsed(rate)


@pytest.mark.parametrize("duration", [True, None, b"10m", [1], {"seconds": 1}])
def test_other_types(duration: object) -> None:
    with pytest.raises(ConfigError, match="lease must be seconds, a timedelta or text"):
        seconds(duration, "lease")  # type: ignore[arg-type]


def test_zero_only_where_it_makes_sense() -> None:
    assert seconds(0, "wait", zero=True) == 0
    assert seconds("0s", "wait", zero=True) == 0
    for nothing in (0, 0.0, "0s", timedelta()):
        with pytest.raises(ConfigError, match="lease must be more than 0"):
            seconds(nothing, "lease")


def test_milliseconds_are_whole_and_never_round_to_none() -> None:
    assert milliseconds(0.0001, "lease") == 1
    assert milliseconds(1.5, "lease") == 1500
    assert milliseconds(0, "wait", zero=True) == 0


def test_milliseconds_are_exact() -> None:
    """A float is seldom exactly the decimal number; its excess must not round up to another millisecond."""
    for number in range(1, 3000):
        assert milliseconds(f"{number}ms", "lease") == number
        assert milliseconds(number / 1000, "lease") == number
        assert milliseconds(f"{number / 1000}s", "lease") == number
        assert milliseconds(timedelta(milliseconds=number), "lease") == number
    for tenths in range(1, 3000):
        assert milliseconds(f"{tenths / 10}h", "lease") == tenths * 360_000
    assert milliseconds("366d", "lease") == 366 * 86_400_000
    assert milliseconds(366 * 86400 - 0.001, "lease") == 366 * 86_400_000 - 1


@pytest.mark.parametrize("duration", [0.001001, 0.0011, 0.0019, "1.001ms", timedelta(microseconds=1001)])
def test_fractions_of_milliseconds_round_up(duration: float | timedelta | str) -> None:
    assert milliseconds(duration, "lease") == 2


def test_seconds_that_were_checked_before() -> None:
    assert [in_milliseconds(duration) for duration in (0.0, 1e-9, 1.001, 16.1, 64.1)] == [0, 1, 1001, 16_100, 64_100]
