"""Ids of jobs, reservations and requests: 16 characters, unique without asking anybody, in the order they were made."""

from __future__ import annotations

import os
import secrets
import threading
import time
from base64 import b64encode

_PLAIN = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_SORTED = b"-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz"
_TABLE = bytes.maketrans(_PLAIN, _SORTED)
_RANDOM_BITS = 54

_lock = threading.Lock()
_last = 0


def new_id() -> str:
    """42 bits of milliseconds since 1970, then 54 bits that start at random and count up within the millisecond."""
    global _last  # noqa: PLW0603 - one sequence per process is the point
    with _lock:
        made = (time.time_ns() // 1_000_000 << _RANDOM_BITS) | secrets.randbits(_RANDOM_BITS)
        if made >> _RANDOM_BITS <= _last >> _RANDOM_BITS:
            made = _last + 1
        _last = made
    return b64encode(made.to_bytes(12, "big")).translate(_TABLE).decode()


def _after_fork() -> None:
    global _lock, _last  # noqa: PLW0603 - the child begins a sequence of its own
    _lock = threading.Lock()
    # one millisecond back, so that the child draws new random bits even within the parent's millisecond
    _last = 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
