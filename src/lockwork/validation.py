"""Whole numbers within bounds, and counts in messages."""

from __future__ import annotations

from lockwork.errors import ConfigError


def whole(value: object, what: str, least: int, most: int) -> int:
    """Return a whole number from `least` to `most`; raises ConfigError for anything else, including True and 1.0."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ConfigError(f"{what} must be a whole number from {least} to {most:,}, not {value!r}")
    return value


def several(count: int, one: str, more: str) -> str:
    """Format a count with its noun: "1 job", "2 jobs"."""
    return f"{count:,} {one if count == 1 else more}"
