"""Locks whose value is their end time, as they have been written in PHP and Java: several commands, the client's clock.

There is no program to install for them, so their steps are written down here, with their flaws.
"""

from __future__ import annotations

import time

import redis


class ExpiringLock:
    """A lock by SETNX and then EXPIRE. A key without an expiry is overwritten with SET. `Lock:NAME`, Unix seconds."""

    def __init__(self, client: redis.Redis, *, dies_between: bool = False) -> None:
        self._client = client
        self._dies_between = dies_between

    def lock(self, name: str, timeout: float = 0, expire: int = 15, interval: float = 0.01) -> bool:
        key, till = f"Lock:{name}", time.time() + timeout
        while True:
            ends = int(time.time()) + expire
            if self._client.setnx(key, ends):
                if not self._dies_between:
                    self._client.expire(key, ends)  # the flaw: an absolute time as a duration
                return True
            if self._client.ttl(key) < 0:  # the bug: true also for -2, a key released at this moment
                self._client.set(key, ends)  # the bug: two clients may run this, and more after them: no expiry
                return True
            if time.time() >= till:
                return False
            time.sleep(interval)

    def unlock(self, name: str) -> bool:
        return bool(self._client.delete(f"Lock:{name}"))  # the bug: deletes any owner's key


class GetsetLock:
    """SETNX; or GET, and GETSET when the time is past: who gets the old value back has won. No expiry on the key."""

    def __init__(self, client: redis.Redis, *, clock_ahead: float = 0, milliseconds: bool = False) -> None:
        self._client = client
        self._ahead = clock_ahead
        self._unit = 1000 if milliseconds else 1
        self._mine: bytes | None = None

    def now(self) -> float:
        return (time.time() + self._ahead) * self._unit

    def lock(self, key: str, timeout: float) -> bool:
        mine = str(int(self.now() + timeout * self._unit)).encode()
        if self._client.setnx(key, mine):
            self._mine = mine
            return True
        old = self._client.get(key)
        if old is not None and float(old) < self.now() and self.take(key, old, mine):
            self._mine = mine
            return True
        return False

    def take(self, key: str, old: bytes | str, mine: bytes) -> bool:
        """The second half of `lock`, separate so that a test can act in between."""
        return bool(self._client.getset(key, mine) == old)

    def unlock(self, key: str) -> bool:
        if self._mine is not None and self._client.get(key) == self._mine:
            return bool(self._client.delete(key))
        return False
