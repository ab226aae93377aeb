"""Durations as people write them: seconds, a timedelta, or text such as "10m"."""

from __future__ import annotations

import math
import re
import sys
from datetime import timedelta

from lockwork.errors import ConfigError

MOST = 10_000_000
"""Most units of a rate or bucket: with more, the server could not count fractions of a microsecond exactly."""
_RATE = re.compile(r"([1-9]\d{0,99})\s*/\s*(\S.*)")


def parsed(rate: object) -> tuple[int, int]:
    """Return a rate's units and its period in microseconds; raises ConfigError."""
    match = _RATE.fullmatch(rate.strip()) if isinstance(rate, str) else None
    if match is None:
        raise ConfigError(f'a rate must be units per time, such as "100/s", "5/m" or "10/30s", not {rate!r:.80}')
    count, per = int(match[1]), match[2].strip()
    try:
        period = round(seconds(per if per[0].isdigit() else f"1{per}", "a rate's period") * 1_000_000)
    except ConfigError as error:
        raise ConfigError(f'{error}; a rate must be units per time, such as "100/s", "5/m" or "10/30s"') from None
    if count > MOST:
        raise ConfigError(f"a rate has at most {MOST:,} units, not {rate!r}")
    return count, period


Duration = float | int | timedelta | str

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)")
_TEXT = re.compile(rf"(?:{_PART.pattern})+")
_LONGEST = 366 * 86400.0
_LEAST_LEASE = 0.1
"""Minimum lease in seconds: a shorter lease could end during one call to the server, or during a pause of Python."""


def seconds(value: Duration, what: str, *, zero: bool = False) -> float:
    """Return `value` in seconds; `what` names it in the error.

    Text is a number with a unit (ms, s, m, h, d, w), repeated if wanted: "90s", "1h30m". Units are lower-case, because
    "M" could be months or minutes.
    Raises ConfigError for anything else, for a negative value, for one over 366 days, and for zero unless `zero`.
    """
    number = _number(value, what)
    if not math.isfinite(number) or number < 0 or number > _LONGEST:
        raise ConfigError(f"{what} must be between 0 and 366 days, not {value!r}")
    if number == 0 and not zero:
        raise ConfigError(f"{what} must be more than 0, not {value!r}")
    return number


def milliseconds(value: Duration, what: str, *, zero: bool = False) -> int:
    """Return `value` in whole milliseconds, at least 1 unless it is 0; errors as `seconds`."""
    return in_milliseconds(seconds(value, what, zero=zero))


def lease_milliseconds(value: Duration) -> int:
    """Return a lease in whole milliseconds, at least 100; errors as `seconds`."""
    duration = seconds(value, "lease")
    if duration < _LEAST_LEASE:
        raise ConfigError(f"lease must be at least {_LEAST_LEASE:g} s, not {value!r}: a shorter one ends during a call")
    return in_milliseconds(duration)


def in_milliseconds(duration: float) -> int:
    """Return seconds in whole milliseconds, rounded up, and at least 1 unless they are 0."""
    # from whole microseconds: no float is exactly 0.009, and its last bit must not add a millisecond
    microseconds = round(duration * 1_000_000) or math.ceil(duration)
    return -(-microseconds // 1000)


def _number(value: Duration, what: str) -> float:
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, str):
        text = value.strip()
        if not _TEXT.fullmatch(text):
            if _TEXT.fullmatch(text.lower()):
                months = ' (months are days, such as "30d")' if "M" in text else ""
                raise ConfigError(f'{what}: units are lower-case: write "{text.lower()}" for {value!r}{months}')
            raise ConfigError(f'{what} must be seconds, a timedelta or text such as "10m" or "1h30m", not {value!r}')
        return sum(float(count) * _UNITS[unit] for count, unit in _PART.findall(text))
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConfigError(f'{what} must be seconds, a timedelta or text such as "10m", not {value!r}')
    if abs(value) > sys.float_info.max:
        raise ConfigError(f"{what} must be between 0 and 366 days")
    return float(value)
