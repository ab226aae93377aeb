"""Steps of the server's clock: scripts of chosen processes add an offset, stored in a key, to the server's time.

A test cannot set the server's clock, but it can change the included Lua part that reads the time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import redis

from lockwork.protocol import scripts

_KEY = "clock:step"
_READ = scripts.read
_NOW = f"""
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2] + tonumber(redis.call('GET', '{_KEY}') or 0)
"""


def _read(path: str) -> str:
    return _NOW if path == "parts/now.lua" else _READ(path)


def obey() -> None:
    """Make the scripts of this process use the stepped time from now on."""
    scripts.read = _read  # type: ignore[assignment]
    scripts.script.cache_clear()


class Stepping:
    """Sets the offset of a server's clock."""

    def __init__(self, admin: redis.Redis) -> None:
        self._admin = admin

    def step(self, seconds: float) -> None:
        """Move the clock forward by this time, or back if it is negative."""
        self._admin.incrby(_KEY, int(seconds * 1_000_000))


@contextmanager
def stepping(admin: redis.Redis) -> Iterator[Stepping]:
    """Step a server's clock within the block, for the scripts of this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scripts, "read", _read)
        scripts.script.cache_clear()
        try:
            yield Stepping(admin)
        finally:
            admin.delete(_KEY)
    scripts.script.cache_clear()
