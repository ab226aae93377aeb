"""A cron line: five fields, and the dates and times of day that they name; it knows no time zone."""

from __future__ import annotations

import calendar
from collections.abc import Sequence
from datetime import date

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
"""The number of the last day of a month, in a set of days."""


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
            times=tuple(hour * 60 + minute for hour in sorted(hours) for minute in sorted(minutes)),
            every_hour=len(hours) == 24,
            days=days,
            months=months,
            weekdays=frozenset(day % 7 for day in weekdays),
            both=fields[2].startswith("*") or fields[4].startswith("*"),
        )
        if line.both and not any(day <= _LONGEST[month - 1] for month in months for day in days):
            raise ConfigError(f"cron line {line_text!r} never fires: none of its months has such a day")
        return line

    def names(self, day: date) -> bool:
        """Return True if the line fires on this date."""
        if day.month not in self.months:
            return False
        by_date = day.day in self.days or (
            _LAST in self.days and day.day == calendar.monthrange(day.year, day.month)[1]
        )
        by_weekday = day.isoweekday() % 7 in self.weekdays
        return by_date and by_weekday if self.both else by_date or by_weekday


def _read_field(given: str, field: _Field, line: str) -> frozenset[int]:
    try:
        numbers = set[int]()
        for part in given.split(","):
            numbers |= _read_part(part, field)
        return frozenset(numbers)
    except ValueError:
        words = f" or {field.words[0]} to {field.words[-1]}" if field.words else ""
        last = ", L for the last" if field.name == "day of the month" else ""
        spread = f"{field.least}-{field.most}"
        raise ConfigError(
            f"the {field.name} of cron line {line!r} is {given!r}: it can be *, numbers from {field.least} to "
            f"{field.most}{words}{last}, ranges such as {spread}, steps such as */2, and lists of these"
        ) from None


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
