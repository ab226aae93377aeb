"""Checks of whole numbers, words and flags."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from lockwork.errors import ConfigError

T = TypeVar("T", bound=str)


def whole(value: object, what: str, least: int, most: int) -> int:
    """Return a whole number from `least` to `most`; raises ConfigError for anything else, including True and 1.0."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ConfigError(f"{what} must be a whole number from {least} to {most:,}, not {value!r}")
    return value


def one_of(value: object, what: str, known: Sequence[T]) -> T:
    """Return one of the known words; raises ConfigError for anything else."""
    for word in known:
        if value == word:
            return word
    raise ConfigError(f"{what} must be one of {', '.join(known)}, not {value!r}")


def yes_or_no(value: object, what: str) -> bool:
    """Return True or False; raises ConfigError for anything else."""
    if not isinstance(value, bool):
        raise ConfigError(f"{what} must be True or False, not {value!r}")
    return value
