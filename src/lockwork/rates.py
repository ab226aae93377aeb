"""Rates as people write them: "100/s", "5/m", "10/30s"."""

from __future__ import annotations

import re

from lockwork.durations import seconds
from lockwork.errors import ConfigError

MOST = 10_000_000
"""Units in a rate or a bucket: with more, fractions of a microsecond could not be counted exactly on the server."""
_RATE = re.compile(r"([1-9]\d{0,99})\s*/\s*(\S.*)")


def parsed(rate: object) -> tuple[int, int]:
    """Return a rate's units and its period in microseconds; raises ConfigError."""
    found = _RATE.fullmatch(rate.strip()) if isinstance(rate, str) else None
    if found is None:
        raise ConfigError(f'a rate is units per time, such as "100/s", "5/m" or "10/30s", not {rate!r:.80}')
    count, per = int(found[1]), found[2].strip()
    try:
        period = round(seconds(per if per[0].isdigit() else f"1{per}", "a rate's period") * 1_000_000)
    except ConfigError as error:
        raise ConfigError(f'{error}; a rate is units per time, such as "100/s", "5/m" or "10/30s"') from None
    if count > MOST:
        raise ConfigError(f"a rate has at most {MOST:,} units, not {rate!r}")
    return count, period
