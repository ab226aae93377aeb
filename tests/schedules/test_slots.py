"""Slots of a schedule compared with a slow reference that checks every minute, also at clock changes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from lockwork.schedules.timing import Cron, Every

_MINUTE = timedelta(minutes=1)
_MOVES = {
    "Europe/Berlin": ["2026-03-29T01:00", "2026-10-25T01:00", "2026-06-01T12:00"],
    "America/New_York": ["2026-03-08T07:00", "2026-11-01T06:00"],
    "Australia/Lord_Howe": ["2026-04-04T15:00", "2026-10-03T15:30"],  # half an hour
    "America/Santiago": ["2026-04-05T03:00", "2026-09-06T04:00"],  # at midnight
    "America/St_Johns": ["2006-04-02T03:31", "2006-10-29T02:31"],  # a minute after midnight
    "Pacific/Apia": ["2011-12-30T10:00"],  # a whole day is missing
    "Africa/Casablanca": ["2026-02-15T02:00", "2026-03-22T02:00"],
    "UTC": ["2026-12-31T23:00", "2028-02-29T12:00"],
}
"""Time zones, and the times of their clock changes."""


@dataclass(frozen=True)
class _Fields:
    """A cron line, and the expected values of its fields."""

    text: str
    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    weekdays: frozenset[int]
    both: bool

    def match(self, local: datetime) -> bool:
        by_date, by_weekday = local.day in self.days, local.isoweekday() % 7 in self.weekdays
        named = (by_date and by_weekday) if self.both else (by_date or by_weekday)
        return named and local.hour in self.hours and local.minute in self.minutes


def _field(least: int, most: int) -> st.SearchStrategy[tuple[str, frozenset[int]]]:
    everything = st.just(("*", frozenset(range(least, most + 1))))
    steps = st.integers(1, 12).map(lambda step: (f"*/{step}", frozenset(range(least, most + 1, step))))
    lists = st.sets(st.integers(least, most), min_size=1, max_size=4).map(
        lambda some: (",".join(map(str, some)), frozenset(some))
    )
    ranges = st.tuples(st.integers(least, most), st.integers(least, most)).map(
        lambda ends: (f"{min(ends)}-{max(ends)}", frozenset(range(min(ends), max(ends) + 1)))
    )
    return st.one_of(everything, everything, steps, lists, ranges)


@st.composite
def _lines(draw: st.DrawFn) -> _Fields:
    minute, hour = draw(_field(0, 59)), draw(_field(0, 23))
    day = draw(st.one_of(st.just(("*", frozenset(range(1, 32)))), _field(1, 31)))
    weekday = draw(st.one_of(st.just(("*", frozenset(range(7)))), _field(0, 6)))
    text = f"{minute[0]} {hour[0]} {day[0]} * {weekday[0]}"
    both = day[0].startswith("*") or weekday[0].startswith("*")
    return _Fields(text, minute[1], hour[1], day[1], weekday[1], both)


def _counted(line: _Fields, zone: ZoneInfo, begin: datetime, end: datetime) -> list[int]:
    """Check each minute after `begin` up to `end`."""
    found, at = [], begin + _MINUTE
    while at <= end:
        local, before = at.astimezone(zone), (at - _MINUTE).astimezone(zone)
        wall = local.replace(tzinfo=None)
        if len(line.hours) == 24:
            fires = line.match(wall)
        else:
            fires = line.match(wall) and local.fold == 0
            missing = before.replace(tzinfo=None) + _MINUTE
            while missing < wall and not fires:
                fires = line.match(missing)
                missing += _MINUTE
        if fires:
            found.append(int(at.timestamp() * 1000))
        at += _MINUTE
    return found


def _ms(at: datetime) -> int:
    return int(at.timestamp() * 1000)


@settings(max_examples=300)
@given(
    line=_lines(),
    place=st.sampled_from([(zone, at) for zone, moves in _MOVES.items() for at in moves]),
    before=st.integers(1, 30 * 60),
    after=st.integers(1, 30 * 60),
    count=st.integers(1, 200),
)
def test_slots_match_a_slow_reference_count(
    line: _Fields, place: tuple[str, str], before: int, after: int, count: int
) -> None:
    zone, at = place[0], datetime.fromisoformat(place[1]).replace(tzinfo=UTC)
    begin, end = at - before * _MINUTE, at + after * _MINUTE
    wanted = _counted(line, ZoneInfo(zone), begin, end)
    cron = Cron(line.text, zone)
    found, slot = [], cron.after(_ms(begin))
    while slot <= _ms(end):
        found.append(slot)
        slot = cron.after(slot)
    assert found == wanted
    assert cron.latest(_ms(begin), _ms(end), count) == wanted[-count:]


def _times(line: str, zone: str, begin: str, count: int) -> list[str]:
    cron, slots = Cron(line, zone), [_ms(datetime.fromisoformat(begin))]
    for _ in range(count):
        slots.append(cron.after(slots[-1]))
    return [datetime.fromtimestamp(slot / 1000, ZoneInfo(zone)).strftime("%d %H:%M %z") for slot in slots[1:]]


def test_skipped_local_time_fires_at_the_clock_change() -> None:
    assert _times("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00+01:00", 2) == ["29 03:00 +0200", "30 02:30 +0200"]


def test_skipped_local_times_fire_once() -> None:
    """Another library skipped the day, so that a nightly job did not run."""
    assert _times("*/20 2 * * *", "Europe/Berlin", "2026-03-28T12:00+01:00", 2) == ["29 03:00 +0200", "30 02:00 +0200"]


def test_repeated_local_time_fires_at_its_first_occurrence() -> None:
    assert _times("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00+02:00", 2) == ["25 02:30 +0200", "26 02:30 +0100"]


def test_hourly_line_fires_by_elapsed_time() -> None:
    begin = "2026-10-25T01:45+02:00"
    assert _times("30 * * * *", "Europe/Berlin", begin, 3) == ["25 02:30 +0200", "25 02:30 +0100", "25 03:30 +0100"]
    begin = "2026-03-29T01:45+01:00"
    assert _times("30 * * * *", "Europe/Berlin", begin, 2) == ["29 03:30 +0200", "29 04:30 +0200"]


def test_hourly_line_fires_by_elapsed_time_over_a_change_at_midnight() -> None:
    found = _times("15,45 * * * *", "America/St_Johns", "2006-10-28T23:30-02:30", 6)
    assert found == [
        "28 23:45 -0230",
        "28 23:15 -0330",
        "28 23:45 -0330",
        "29 00:15 -0330",
        "29 00:45 -0330",
        "29 01:15 -0330",
    ]


@pytest.mark.parametrize("period", ["1s", "7s", "10m", "1w", 90])
def test_periods_are_whole_multiples_since_1970(period: str | int) -> None:
    every = Every.read(period)
    moment = 1_800_000_000_123
    slots = every.latest(moment - 40 * 7 * 86_400_000, moment, 5)
    step = slots[1] - slots[0]
    assert all(slot % step == 0 for slot in slots)
    assert [later - slot for slot, later in pairwise(slots)] == [step] * 4
    assert every.after(slots[-1]) == slots[-1] + step > moment >= slots[-1]
    assert every.latest(slots[-2], slots[-1] - 1, 5) == []
    assert every.latest(slots[-2], slots[-1], 5) == [slots[-1]]


def test_cron_and_period_have_readable_texts() -> None:
    assert Cron("0  9 * *  mon", "Europe/Berlin").text == "cron 0 9 * * mon in Europe/Berlin"
    assert Every.read("10m").text == "every 600000 ms"
