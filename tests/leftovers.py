"""Checks for threads, sockets and keys that a test leaves in this process and on the server."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path

import redis

_DESCRIPTORS = "/proc/self/fd"
_LISTED = Path(_DESCRIPTORS).exists()
_PASSING = ("lock", "sem", "rw", "quorum", "latch", "barrier", "limiter", "once")
"""Kinds of keys that must expire, because no call deletes them."""


def own_threads() -> list[threading.Thread]:
    """Return the running threads, except threads of pools, which their owners keep."""
    return [each for each in threading.enumerate() if not each.name.startswith(("ThreadPoolExecutor", "asyncio_"))]


def open_sockets() -> set[str]:
    """Return the sockets of this process."""
    found = set()
    for descriptor in os.listdir(_DESCRIPTORS) if _LISTED else ():  # noqa: PTH208 - pathlib takes three times as long
        with contextlib.suppress(OSError):
            target = os.readlink(f"{_DESCRIPTORS}/{descriptor}")  # noqa: PTH115
            if target.startswith("socket:"):
                found.add(target)
    return found


def check_keys(client: redis.Redis) -> None:
    """Fail if there is a key without an owner or an expiry."""
    for key in client.scan_iter(match="*", count=1000):
        name = key.decode()
        if any(f"{{{kind}:" in name for kind in _PASSING):
            assert client.ttl(key) > 0, f"a key without an expiry: {name}"
        assert ":run:" not in name, f"jobs still leased: {name} {client.hgetall(key)}"
