"""What people write on the command line, as our functions take it."""

from __future__ import annotations


def duration(text: str) -> float | str:
    """A bare number on the command line is seconds."""
    try:
        return float(text)
    except ValueError:
        return text
