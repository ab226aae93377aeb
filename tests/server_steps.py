"""Steps of the server's clock:

scripts of selected processes add an offset from a key to the server's time. A test cannot set the server's clock, but
it can change the included part with which scripts read the time.
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
    """Let the scripts of this process tell the time so, from now on."""
    scripts.read = _read  # type: ignore[assignment]
    scripts.script.cache_clear()


class Stepping:
    """Sets the server's clock."""

    def __init__(self, admin: redis.Redis) -> None:
        self._admin = admin

    def step(self, seconds: float) -> None:
        """Set it forward, or back when that is negative."""
        self._admin.incrby(_KEY, int(seconds * 1_000_000))


@contextmanager
def stepping(admin: redis.Redis) -> Iterator[Stepping]:
    """A server whose clock can be stepped, as long as the block lasts, by the scripts of this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scripts, "read", _read)
        scripts.script.cache_clear()
        try:
            yield Stepping(admin)
        finally:
            admin.delete(_KEY)
    scripts.script.cache_clear()
