"""The strip of a schedule's next 24 hours."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from lockwork.dashboard.charts import bar_parts
from lockwork.dashboard.pages.schedules import strip

NOW = datetime(2026, 7, 1, 6, tzinfo=UTC)


def slots(every: timedelta, many: int) -> list[datetime]:
    return [NOW + every * at for at in range(1, many + 1)]


def test_slots_that_are_apart_are_ticks_until_the_end_of_the_day() -> None:
    found = strip(slots(timedelta(hours=6), 10), NOW)
    assert (found.ticks, found.bands, found.many) == ([25.0, 50.0, 75.0, 100.0], [], "4")


def test_slots_that_are_close_are_a_band() -> None:
    found = strip([*slots(timedelta(minutes=1), 30), NOW + timedelta(hours=12)], NOW)
    assert (found.ticks, found.bands, found.many) == ([50.0], [(0.07, 2.08)], "31")


def test_band_goes_on_behind_the_last_slot_that_was_read() -> None:
    found = strip(slots(timedelta(minutes=5), 100), NOW)
    assert (found.ticks, found.bands, found.many) == ([], [(0.35, 100.0)], "100 or more")


def test_schedule_without_slots_in_the_day_has_an_empty_strip() -> None:
    found = strip([NOW + timedelta(days=2)], NOW)
    assert (found.ticks, found.bands, found.many) == ([], [], "0")


def test_bars_of_several_queues_have_one_scale() -> None:
    long, short = bar_parts([("ready", 1000)], 100.0), bar_parts([("ready", 100)], 10.0)
    assert (long[0][2], short[0][2]) == (100.0, 10.0)
    tiny = bar_parts([("ready", 1), ("running", 1), ("scheduled", 1)], 0.01)
    assert [wide for _, _, wide in tiny] == [2.0, 2.0, 2.0]
