"""Computes the slots of a schedule, in ms since 1970, from a cron line in a time zone or from a period.

Daylight saving. A line for every hour follows real time: an hour that occurs twice fires twice, and an hour that the
clocks skip does not fire. A line that names its hours fires once for each of its times on every matching day: a time
that occurs twice fires at its first occurrence. A time that the clocks skip fires at the moment of the jump; several
skipped times fire once.
"""

from __future__ import annotations

import bisect
from datetime import UTC, date, datetime, timedelta, tzinfo
from datetime import time as time_of_day
from typing import Protocol
from zoneinfo import ZoneInfo

from lockwork.durations import Duration, milliseconds
from lockwork.errors import ConfigError
from lockwork.protocol.schedules.created import NEVER
from lockwork.schedules.cronline import CronLine

_DAY = timedelta(days=1)
_EPOCH = date(1970, 1, 1)
_REMEMBERED = 4
_SHORTEST = 1000
_FIRST = datetime(1970, 1, 1, tzinfo=UTC)
_LAST = datetime(3000, 1, 1, tzinfo=UTC)


class Timing(Protocol):
    """A source of slots; all times are ms since 1970."""

    text: str
    """The timing as text; two timings with the same text have the same slots."""

    zone: tzinfo
    """The time zone to show times in."""

    def after(self, moment: int) -> int:
        """The first slot after this moment, or NEVER."""
        raise NotImplementedError

    def latest(self, after: int, until: int, count: int) -> list[int]:
        """The newest slots, `count` at most, later than `after` and not later than `until`; in their order."""
        raise NotImplementedError


class Every:
    """Slots at whole multiples of a period since 1970, so that every process agrees on them."""

    def __init__(self, period_ms: int) -> None:
        self._period = period_ms
        self.text: str = f"every {self._period} ms"
        self.zone: tzinfo = UTC

    @classmethod
    def read(cls, period: Duration) -> Every:
        """Read a period as users give it; raises ConfigError."""
        period_ms = milliseconds(period, "every")
        if period_ms < _SHORTEST:
            raise ConfigError(f"every must be at least 1 s, not {period!r}")
        return cls(period_ms)

    def after(self, moment: int) -> int:
        """The first slot after this moment."""
        return (moment // self._period + 1) * self._period

    def latest(self, after: int, until: int, count: int) -> list[int]:
        """The newest slots, `count` at most, later than `after` and not later than `until`; in their order."""
        last = until // self._period
        first = max(after // self._period + 1, last - count + 1)
        return [number * self._period for number in range(first, last + 1)]


class At:
    """One slot, at a moment."""

    def __init__(self, moment_ms: int) -> None:
        self.moment: int = moment_ms
        self.text: str = f"at {moment_ms} ms"
        self.zone: tzinfo = UTC

    @classmethod
    def read(cls, moment: object) -> At:
        """Read a moment as users give it; raises ConfigError."""
        if not isinstance(moment, datetime) or moment.utcoffset() is None or not _FIRST <= moment <= _LAST:
            raise ConfigError(f"at must be a datetime with a time zone, between 1970 and 3000, not {moment!r:.80}")
        return cls((moment - _FIRST) // timedelta(milliseconds=1))

    def after(self, moment: int) -> int:
        """The slot, if it is after this moment, else NEVER."""
        return self.moment if moment < self.moment else NEVER

    def latest(self, after: int, until: int, count: int) -> list[int]:
        """The slot, if it is later than `after` and not later than `until`."""
        return [self.moment] if count and after < self.moment <= until else []


class Cron:
    """Slots of a cron line on the clocks of a time zone."""

    def __init__(self, line: str, zone: str | ZoneInfo = "UTC") -> None:
        self._line = CronLine.read(line)
        self.zone: tzinfo = read_zone(zone)
        self.text: str = f"cron {self._line.text} in {zone_name(self.zone)}"
        self._known: dict[date, list[int]] = {}

    def after(self, moment: int) -> int:
        """The first slot after this moment."""
        day = self._date(moment) - _DAY
        while True:
            slots = [slot for slot in self._slots(day) if slot > moment]
            if slots:
                # if the clocks go back over midnight, the next day's first slot precedes this day's last slot
                return min(slots + [slot for slot in self._slots(day + _DAY) if slot > moment])
            day += _DAY

    def latest(self, after: int, until: int, count: int) -> list[int]:
        """The newest slots, `count` at most, later than `after` and not later than `until`; in their order."""
        chosen = set[int]()
        day, first, enough = self._date(until) + _DAY, self._date(after) - _DAY, False
        while day >= first and not enough:
            enough = len(chosen) >= count  # then one day more, because the clocks may go back over midnight
            chosen |= {slot for slot in self._slots(day) if after < slot <= until}
            day -= _DAY
        return sorted(chosen)[-count:]

    def _date(self, moment: int) -> date:
        return datetime.fromtimestamp(moment // 1000, self.zone).date()

    def _slots(self, day: date) -> list[int]:
        """Return the slots of a date in this time zone; they may overlap with the slots of adjacent dates."""
        if not self._line.names(day):
            return []
        slots = self._known.get(day)
        if slots is None:
            slots = sorted(self._computed(day))
            self._known = dict([*self._known.items(), (day, slots)][-_REMEMBERED:])
        return slots

    def _computed(self, day: date) -> set[int]:
        slots = set[int]()
        midnight = (day - _EPOCH).days * 86_400
        begin = datetime.combine(day, time_of_day())
        for minutes in self._line.times:
            local = begin + timedelta(minutes=minutes)
            first, second = self._offset(local, 0), self._offset(local, 1)
            wall = midnight + minutes * 60
            if first == second:
                slots.add((wall - first) * 1000)
            elif first > second:  # the time occurs twice
                slots.add((wall - first) * 1000)
                if self._line.every_hour:
                    slots.add((wall - second) * 1000)
            elif not self._line.every_hour:  # the clocks skip the time
                slots.add(self._jump(wall - second, wall - first) * 1000)
        return slots

    def _offset(self, local: datetime, fold: int) -> int:
        offset = local.replace(tzinfo=self.zone, fold=fold).utcoffset()
        assert offset is not None
        return int(offset.total_seconds())

    def _jump(self, before: int, later: int) -> int:
        """Return the second when the clocks jump, between two seconds since 1970."""
        old = self._offset_at(before)
        return bisect.bisect_left(range(before, later), True, key=lambda at: self._offset_at(at) != old) + before

    def _offset_at(self, second: int) -> int:
        offset = datetime.fromtimestamp(second, self.zone).utcoffset()
        assert offset is not None
        return int(offset.total_seconds())


def read_zone(name: object) -> tzinfo:
    """Return the time zone; raises ConfigError."""
    if isinstance(name, ZoneInfo):
        if not isinstance(name.key, str):
            raise ConfigError("tz must be a time zone with a name, which a ZoneInfo read from a file has not")
        return name
    if name in ("UTC", UTC):
        return UTC  # available even if the system has no time zones
    if not isinstance(name, str):
        raise ConfigError(f'tz must be the name of a time zone, such as "Europe/Berlin", not {name!r}')
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise ConfigError(
            f"no time zone is named {name!r} here: names are like Europe/Berlin; where the system brings none at all, "
            "install the package tzdata"
        ) from None


def zone_name(zone: tzinfo) -> str:
    """Return the name of the zone for `read_zone`."""
    return zone.key if isinstance(zone, ZoneInfo) else "UTC"
