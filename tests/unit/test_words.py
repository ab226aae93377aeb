"""Words for people: one spelling of durations, sizes, counts and short ids."""

from __future__ import annotations

import pytest

from lockwork import words


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 ms"), (0.0004, "<1 ms"), (0.0006, "1 ms"), (0.84, "840 ms"), (0.9996, "1.0 s"), (2.06, "2.1 s"),
        (59.94, "59.9 s"), (59.96, "1 min"), (62, "1 min 2 s"), (3599.6, "1 h"), (18_720, "5 h 12 min"),
        (86_399, "23 h 59 min"), (273_600, "3 d 4 h"), (1e9, "11,574 d 1 h"), (-0.84, "-840 ms"), (-62, "-1 min 2 s"),
    ],
)  # fmt: skip
def test_measured_duration_is_rounded(seconds: float, text: str) -> None:
    assert words.duration(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text", "rough"),
    [
        (-1, "0.0 s", "0 s"), (0.04, "0.0 s", "0 s"), (0.84, "0.8 s", "0 s"), (59.9, "59.9 s", "59 s"),
        (59.97, "1 min", "59 s"), (61.9, "1 min 1 s", "1 min 1 s"), (604, "10 min 4 s", "10 min"),
        (3660, "1 h 1 min", "1 h 1 min"), (86_399, "23 h 59 min", "23 h"), (270_000, "3 d 3 h", "3 d 3 h"),
        (1e6, "11 d 13 h", "11 d"),
    ],
)  # fmt: skip
def test_age_is_rounded_down(seconds: float, text: str, rough: str) -> None:
    assert (words.age(seconds), words.rough_age(seconds)) == (text, rough)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.25, "0.25 s"), (0, "0 s"), (1.2, "1.2 s"), (60, "1 min"), (90.5, "1 min 30.5 s"), (3600, "1 h"),
        (5405, "1 h 30 min 5 s"), (90_000, "1 d 1 h"), (119.9998, "2 min"), (None, "no limit"),
    ],
)  # fmt: skip
def test_limit_is_exact(seconds: float | None, text: str) -> None:
    assert words.exact(seconds) == text


def test_call_of_a_few_microseconds_is_not_zero() -> None:
    assert [words.latency(seconds) for seconds in (0.00001, 0.0001, 0.00034)] == ["<0.1 ms", "0.1 ms", "0.3 ms"]


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"), (999, "999 B"), (1000, "1 kB"), (1240, "1.2 kB"), (3_000_000, "3 MB"), (46_500_000, "46.5 MB"),
        (99_960_000, "100 MB"), (999_600, "1 MB"), (5e16, "50000 TB"),
    ],
)  # fmt: skip
def test_size(count: float, text: str) -> None:
    assert words.size(count) == text


def test_count_has_a_plural() -> None:
    assert words.several(1, "job") == "1 job"
    assert words.several(1204, "job") == "1,204 jobs"
    assert words.several(0, "process", "processes") == "0 processes"


@pytest.mark.parametrize(
    ("id", "text"),
    [
        ("P7GzmK2cMWr17HWe", "P7GzmK2cMWr17HWe"), ("P7GzmK2cMWr17HWefC", "P7Gz…r17HWefC"),
        ("P7GzmK2cMWr17HWe.00003", "P7…17HWe.00003"), ("P7GzmK2cMWr17HWe.00003u", "P7…17HWe.00003u"),
        ("report@2026-11-24T13:00:00Z", "report@…24T13:00:00"),
        ("a-long-name@2026-11-24T13:00:00.250Z", "a-…@…24T13:00:00.250"),
        ("report@P7GzmK2cMWr17HWe", "report@…K2cMWr17HWe"),
        ("order-42", "order-42"),
    ],
)  # fmt: skip
def test_short_id(id: str, text: str) -> None:
    assert words.short_id(id) == text
