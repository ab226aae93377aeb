"""Priorities of jobs: three words, and the numbers 0 to 9 in queues that have them.

A record's header has one digit: 0, 1 and 2 for the words, which any queue has, and 3 to 9 for the other numbers. The
digits of the words never change their meaning, so a queue may get ten priorities, and lose them, while jobs wait.
"""

from __future__ import annotations

from typing import Literal, TypeGuard

from lockwork.errors import ConfigError
from lockwork.protocol.keys import PRIORITIES

Priority = Literal["high", "normal", "low", 0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
_DIGITS = (0, 3, 4, 5, 6, 1, 7, 8, 9, 2)
"""The digit of each number: 0 is high, 5 is normal, 9 is low."""
NORMAL: int = PRIORITIES.index("normal")


def digit(priority: object) -> int:
    """Return the digit of a priority; raises ConfigError."""
    if isinstance(priority, str) and priority in PRIORITIES:
        return PRIORITIES.index(priority)
    if is_number(priority) and 0 <= priority <= 9:
        return _DIGITS[priority]
    raise ConfigError(
        f"priority must be one of {', '.join(PRIORITIES)}, or, in a queue of ten_priorities, a number from 0 (first) "
        f"to 9, not {priority!r:.60}"
    )


def is_number(priority: object) -> TypeGuard[int]:
    """Return True for a number, which only queues with ten priorities have."""
    return isinstance(priority, int) and not isinstance(priority, bool)


def shown(digit: int) -> str | int:
    """Return the priority of a digit: a word, or a number that no word means."""
    return PRIORITIES[digit] if digit < len(PRIORITIES) else _DIGITS.index(digit)


def rank(priority: str | int) -> int:
    """Return the rank of a priority; jobs of rank 0 start first."""
    return _DIGITS.index(digit(priority))


def is_numbered(record: bytes) -> bool:
    """Return True if the job of a record waits in a numbered level."""
    return record[:1] > b"2"
