"""A cron line: five fields, and the dates and times of day that they name; it knows no time zone."""

from __future__ import annotations

import calendar
from collections.abc import Sequence
from datetime import date, timedelta

import msgspec
from msgspec import Struct

from lockwork.errors import ConfigError

_MACROS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_LONGEST = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_LAST = 0
"""The number of the last day of a month, in a set of days, and of the last of a weekday."""
_CYCLE = [date(2000, 1, 1) + timedelta(days=number) for number in range(28 * 365 + 7)]
"""All combinations of a date and a weekday."""


class _Field(Struct, frozen=True):
    name: str
    least: int
    most: int
    words: Sequence[str] = ()
    first: int = 0
    """The number of the first word."""


_FIELDS = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of the month", 1, 31),
    _Field("month", 1, 12, _MONTHS, 1),
    _Field("day of the week", 0, 7, _WEEKDAYS, 0),
)


class _Days(Struct):
    """The days that one field names."""

    numbers: set[int] = msgspec.field(default_factory=set[int])
    workdays: set[int] = msgspec.field(default_factory=set[int])
    """15W: the day from Monday to Friday that is nearest to the 15th, in its month; LW is the last one."""
    nth: set[tuple[int, int]] = msgspec.field(default_factory=set[tuple[int, int]])
    """fri#2 or 5L: a weekday, and which one of the month."""


class CronLine(Struct, frozen=True):
    """A line that fires at some time at least; `text` is as given, with single spaces."""

    text: str
    times: tuple[int, ...]
    """Minutes since midnight."""
    every_hour: bool
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    """0 is Sunday."""
    workdays: frozenset[int]
    nth: frozenset[tuple[int, int]]
    both: bool
    """True if day of the month and day of the week must both match; otherwise one match is enough."""

    @classmethod
    def read(cls, text: object) -> CronLine:
        """Read a line; raises ConfigError, also when it can never fire."""
        if not isinstance(text, str):
            raise ConfigError(f'a cron line is text such as "0 9 * * mon-fri", not {text!r}')
        line_text = " ".join(text.split())
        fields = _MACROS.get(line_text.lower(), line_text).lower().split()
        if len(fields) != len(_FIELDS):
            hint = "; for seconds use every=" if len(fields) == len(_FIELDS) + 1 else ""
            raise ConfigError(
                f"a cron line has five fields (minute, hour, day of the month, month, day of the week), or is one of "
                f"{', '.join(_MACROS)}; {text!r} has {len(fields)}{hint}"
            )
        minutes, hours, days, months, weekdays = (
            _read_field(field_text, field, line_text) for field_text, field in zip(fields, _FIELDS, strict=True)
        )
        line = cls(
            text=line_text,
            times=tuple(hour * 60 + minute for hour in sorted(hours.numbers) for minute in sorted(minutes.numbers)),
            every_hour=len(hours.numbers) == 24,
            days=frozenset(days.numbers),
            months=frozenset(months.numbers),
            weekdays=frozenset(day % 7 for day in weekdays.numbers),
            workdays=frozenset(days.workdays),
            nth=frozenset((day % 7, which) for day, which in weekdays.nth),
            both=fields[2].startswith("*") or fields[4].startswith("*"),
        )
        possible = line.days | line.workdays
        if line.both and not any(day <= _LONGEST[month - 1] for month in line.months for day in possible):
            raise ConfigError(f"cron line {line_text!r} never fires: none of its months has such a day")
        if line.both and (line.workdays or line.nth) and not any(map(line.names, _CYCLE)):
            raise ConfigError(f"cron line {line_text!r} never fires: no such day is such a weekday")
        return line

    def names(self, day: date) -> bool:
        """Return True if the line fires on this date."""
        if day.month not in self.months:
            return False
        length, weekday = calendar.monthrange(day.year, day.month)[1], day.isoweekday() % 7
        by_date = (
            day.day in self.days
            or (_LAST in self.days and day.day == length)
            or any(_workday(day, number or length, length) == day.day for number in self.workdays)
        )
        by_weekday = (
            weekday in self.weekdays
            or (weekday, (day.day + 6) // 7) in self.nth
            or ((weekday, _LAST) in self.nth and day.day + 7 > length)
        )
        return by_date and by_weekday if self.both else by_date or by_weekday


def _workday(day: date, number: int, length: int) -> int | None:
    """Return the day from Monday to Friday that is nearest to the day `number` of this month, in the same month."""
    if number > length:
        return None
    weekday = day.replace(day=number).isoweekday()
    if weekday == 6:
        return number - 1 if number > 1 else 3
    if weekday == 7:
        return number + 1 if number < length else number - 2
    return number


def _read_field(given: str, field: _Field, line: str) -> _Days:
    days = _Days()
    try:
        for part in given.split(","):
            if not _read_sign(part, field, days):
                days.numbers |= _read_part(part, field)
    except ValueError:
        words = f" or {field.words[0]} to {field.words[-1]}" if field.words else ""
        last = {
            "day of the month": ", L for the last, 15W for the workday nearest to the 15th, LW for the last workday",
            "day of the week": ", fri#2 for the second Friday, 5L for the last Friday",
        }.get(field.name, "")
        spread = f"{field.least}-{field.most}"
        raise ConfigError(
            f"the {field.name} of cron line {line!r} is {given!r}: it can be *, numbers from {field.least} to "
            f"{field.most}{words}{last}, ranges such as {spread}, steps such as */2, and lists of these"
        ) from None
    return days


def _read_sign(part: str, field: _Field, days: _Days) -> bool:
    """Read LW, 15W, fri#2 or 5L; return False for another part."""
    if field.name == "day of the month" and part.endswith("w"):
        days.workdays.add(_LAST if part == "lw" else _number(part[:-1], field))
        return True
    if field.words is not _WEEKDAYS:
        return False
    weekday, sign, which = part.partition("#")
    if sign:
        if which not in ("1", "2", "3", "4", "5"):
            raise ValueError(part)
        days.nth.add((_number(weekday, field), int(which)))
    elif part.endswith("l"):
        days.nth.add((_number(part[:-1], field), _LAST))
    return bool(sign) or part.endswith("l")


def _read_part(part: str, field: _Field) -> set[int]:
    spread, slash, step = part.partition("/")
    if slash and (not _is_number(step) or int(step) == 0):
        raise ValueError(part)
    if spread == "l" and field.name == "day of the month" and not slash:
        return {_LAST}
    if spread == "*":
        first, last = field.least, min(field.most, 6) if field.words is _WEEKDAYS else field.most
    else:
        begin, dash, end = spread.partition("-")
        first = _number(begin, field)
        last = _number(end, field) if dash else field.most if slash else first
        if last < first:
            raise ValueError(part)
    return set(range(first, last + 1, int(step) if slash else 1))


def _number(text: str, field: _Field) -> int:
    if text in field.words:
        return field.words.index(text) + field.first
    if not _is_number(text) or not field.least <= int(text) <= field.most:
        raise ValueError(text)
    return int(text)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 4
