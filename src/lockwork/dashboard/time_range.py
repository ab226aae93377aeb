"""The shown time of a page: the last minutes, hours or days, or a part chosen on a chart."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from math import ceil
from typing import cast

from msgspec import Struct

from lockwork.errors import ConfigError
from lockwork.telemetry.metrics import Activity, Span, buckets
from lockwork.words import duration

RANGES = {"15m": "15 min", "1h": "1 hour", "24h": "24 hours", "7d": "7 days"}
"""The time ranges of the top bar."""
_LAST = {"15m": "the last 15 minutes", "1h": "the last hour", "24h": "the last 24 hours", "7d": "the last 7 days"}
_LATEST = 10_000_000_000
"""Latest second since 1970 in an address."""


class TimeRange(Struct, frozen=True):
    """A range of the top bar, and its chosen part, in whole buckets: the brush."""

    span: Span
    brush: tuple[datetime, datetime] | None = None
    """Begin and end."""

    @classmethod
    def read(cls, chosen: str, begin: str, end: str, now: float) -> TimeRange:
        """Parse the parameters of an address: a range, and the seconds since 1970 of a chosen part.

        If the range no longer includes the part, uses the next longer range with it. Raises ConfigError for a part that
        is not within the last 7 days.
        """
        ranges = cast("list[Span]", list(RANGES))
        at = ranges.index(cast("Span", chosen if chosen in RANGES else "1h"))
        if not begin and not end:
            return cls(ranges[at])
        first, last = _second(begin), _second(end)
        if first is None or last is None or last <= first:
            raise ConfigError("from and to are seconds since 1970, from the earlier one to the later one.")
        for span in ranges[at:]:
            length, count = buckets(span)
            current = int(now // length)
            if (current - count + 1) * length <= first < (current + 1) * length:
                stop = min(ceil(last / length), current + 1) * length
                return cls(span, (_moment(first // length * length), _moment(stop)))
        raise ConfigError("Metrics reach back 7 days, and the chosen time is not within them.")

    @property
    def label(self) -> str:
        """Length, such as "1 hour"."""
        return duration((self.brush[1] - self.brush[0]).total_seconds()) if self.brush else RANGES[self.span]

    @property
    def words(self) -> str:
        """The range of the top bar in words."""
        return _LAST[self.span]

    @property
    def within(self) -> dict[str, str]:
        """Return the filters of the page of jobs for this time."""
        if self.brush is None:
            return {"since": self.span}
        return {"since": _written(self.brush[0]), "until": _written(self.brush[1])}

    def cut(self, found: Activity) -> Activity:
        """Return the chosen part of the activity of the range."""
        return found.between(*self.brush) if self.brush else found


def read_time(text: str) -> str | datetime:
    """Parse a moment such as 2026-11-25T09:20Z, in UTC without a zone; return any other text unchanged."""
    if len(text) < len("2026-11-25"):
        return text
    try:
        moment = datetime.fromisoformat(text)
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    except ValueError:
        return text


def _second(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 12 and int(text) < _LATEST else None


def _moment(second: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=second)


def _written(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M}Z"
