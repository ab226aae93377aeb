"""Counts as people give them, whole numbers within bounds, and as they read them."""

from __future__ import annotations

from lockwork.errors import ConfigError


def whole(value: object, what: str, least: int, most: int) -> int:
    """Return a whole number from `least` to `most`; raises ConfigError for anything else, True and 1.0 included."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ConfigError(f"{what} must be a whole number from {least} to {most:,}, not {value!r}")
    return value


def several(count: int, one: str, more: str) -> str:
    """The count with what it counts: "1 job", "2 jobs"."""
    return f"{count:,} {one if count == 1 else more}"
