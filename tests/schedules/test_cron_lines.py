"""Valid and invalid cron lines."""

from __future__ import annotations

from datetime import date, timedelta

import pytest

from lockwork.errors import ConfigError
from lockwork.schedules.cronline import CronLine
from lockwork.schedules.timing import Cron, Every


@pytest.mark.parametrize(
    ("line", "times", "days"),
    [
        ("0 9 * * mon-fri", [540], [2, 3, 4, 5, 6, 9, 10]),
        ("0 9 * * MON,wed", [540], [2, 4, 9]),
        ("*/20 0-1 1,5 * *", [0, 20, 40, 60, 80, 100], [1, 5]),
        ("5/20 23 8-10 * *", [1385, 1405, 1425], [8, 9, 10]),
        ("0 0 * feb 7", [0], [1, 8]),
        ("0 0 * 1-2 sun", [0], [1, 8]),
        ("0 0 3 * tue", [0], [3, 10]),  # either field matches
        ("0 0 */4 * mon-wed", [0], [9]),  # with a star, both fields must match
        ("0 0 8/2 * *", [0], [8, 10]),
        ("  @weekly ", [0], [1, 8]),
        ("@DAILY", [0], list(range(1, 11))),
        ("@monthly", [0], [1]),
    ],
)
def test_cron_line_is_parsed_into_times_and_days(line: str, times: list[int], days: list[int]) -> None:
    read = CronLine.read(line)
    assert list(read.times) == times
    assert [day for day in range(1, 11) if read.names(date(2026, 2, day))] == days


def test_cron_line_accepts_last_day_of_month() -> None:
    line = CronLine.read("0 0 L * *")
    found = [(month, day) for month in (1, 2, 4) for day in range(1, 29) if line.names(date(2028, month, day))]
    assert found == []
    assert [line.names(date(2028, 2, day)) for day in (28, 29)] == [False, True]
    assert [line.names(date(2027, 2, day)) for day in (27, 28)] == [False, True]


@pytest.mark.parametrize(
    "line",
    [
        "",
        "* * * *",
        "* * * * * *",
        "60 * * * *",
        "* 24 * * *",
        "* * 0 * *",
        "* * 32 * *",
        "* * * 13 *",
        "* * * * 8",
        "-1 * * * *",
        "1- * * * *",
        "5-1 * * * *",
        "*/0 * * * *",
        "*/x * * * *",
        "1,,2 * * * *",
        "1/2/3 * * * *",
        "* * * mon *",
        "* * * * jan",
        "* * * * fri-mon",
        "* * ? * *",
        "* L * * *",
        "* * L/2 * *",
        "\u0663 * * * *",
        "1 1 1 1 1\x00",
        "@reboot",
    ],
)
def test_unreadable_cron_line_is_refused_with_its_text(line: str) -> None:
    with pytest.raises(ConfigError, match="cron line") as refused:
        CronLine.read(line)
    assert repr(" ".join(line.split())) in str(refused.value) or repr(line) in str(refused.value)


@pytest.mark.parametrize("line", ["0 0 30 2 *", "0 0 31 feb,apr,jun,sep,nov *", "0 0 30-31 2 */2", "59 23 31 4 *"])
def test_cron_line_that_never_fires_is_refused(line: str) -> None:
    with pytest.raises(ConfigError, match="never fires"):
        CronLine.read(line)


@pytest.mark.parametrize("line", ["0 0 29 2 *", "0 0 30 2 mon", "0 0 31 1-2 *", "0 0 */31 2 mon", "0 0 29 2 */7"])
def test_cron_line_that_fires_rarely_is_accepted(line: str) -> None:
    cron = Cron(line)
    first = cron.after(1_800_000_000_000)
    assert cron.latest(first - 1, first, 9) == [first]


def test_error_for_seconds_in_a_cron_line_names_the_alternative() -> None:
    with pytest.raises(ConfigError, match="for seconds use every="):
        CronLine.read("*/10 * * * * *")


@pytest.mark.parametrize("line", [None, 5, b"* * * * *", ["*"]])
def test_non_strings_are_refused(line: object) -> None:
    with pytest.raises(ConfigError, match="cron line is text"):
        CronLine.read(line)


@pytest.mark.parametrize("zone", ["Nowhere/At_All", "", "/etc/passwd", "../UTC", 5, None, ["UTC"]])
def test_unknown_time_zone_is_refused(zone: str) -> None:
    with pytest.raises(ConfigError, match=r"tz|time zone"):
        Cron("0 0 * * *", zone)


@pytest.mark.parametrize("period", [0, -1, 0.5, "999ms", "400d", "often", True])
def test_wrong_period_is_refused(period: float | str) -> None:
    with pytest.raises(ConfigError, match="every"):
        Every.read(period)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("0 0 * * fri#2", ["01-09", "02-13", "03-13", "04-10"]),
        ("0 0 * * 5L", ["01-30", "02-27", "03-27", "04-24"]),
        ("0 0 * * friL", ["01-30", "02-27", "03-27", "04-24"]),
        ("0 0 * * 7#1,sun#5", ["01-04", "02-01", "03-01", "03-29"]),
        ("0 0 15W * *", ["01-15", "02-16", "03-16", "04-15"]),
        ("0 0 1W * *", ["01-01", "02-02", "03-02", "04-01"]),
        ("0 0 31W * *", ["01-30", "03-31", "05-29", "07-31"]),
        ("0 0 LW * *", ["01-30", "02-27", "03-31", "04-30"]),
        ("0 0 1W,LW 8 *", ["08-03", "08-31"]),
        ("0 0 LW * fri#1", ["01-02", "01-30", "02-06", "02-27"]),
    ],
)
def test_nth_weekdays_and_workdays(line: str, expected: list[str]) -> None:
    read, day, found = CronLine.read(line), date(2026, 1, 1), list[str]()
    while len(found) < len(expected):
        if read.names(day):
            found.append(f"{day:%m-%d}")
        day += timedelta(days=1)
    assert found == expected


@pytest.mark.parametrize(
    "line", ["0 0 * * fri#6", "0 0 * * #2", "0 0 * * L", "0 0 W * *", "0 0 32W * *", "0 0 1-5W * *"]
)
def test_wrong_nth_weekdays_and_workdays_are_refused(line: str) -> None:
    with pytest.raises(ConfigError, match="it can be"):
        CronLine.read(line)


@pytest.mark.parametrize("line", ["0 0 */31 * mon#2", "0 0 15W * */7", "0 0 31W 2 *"])
def test_workdays_that_never_come_are_refused(line: str) -> None:
    with pytest.raises(ConfigError, match="never fires"):
        CronLine.read(line)
