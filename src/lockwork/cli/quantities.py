"""What people write on the command line, as our functions take it."""

from __future__ import annotations

import re

from lockwork.errors import ConfigError

_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,15})?)\s*([kmgt])(i?)b?", re.IGNORECASE)
_POWERS = {"k": 1, "m": 2, "g": 3, "t": 4}


def duration(text: str) -> float | str:
    """A bare number on the command line is seconds."""
    try:
        return float(text)
    except ValueError:
        return text


def size(text: str, what: str) -> int:
    """Return the bytes that a text such as "512MB" or "1.5GiB" means; raises ConfigError."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise ConfigError(f'{what} must be a size such as "512MB" or "1.5GiB", not {text!r:.80}')
    number, unit, binary = found.groups()
    bytes = int(float(number) * (1024 if binary else 1000) ** _POWERS[unit.lower()])
    if bytes < 1:
        raise ConfigError(f"{what} must be more than 0, not {text!r}")
    return bytes
