"""The values of a lock whose value is its end time: what we write, and what we refuse to read."""

from __future__ import annotations

import time

import pytest
import redis

from compat.old_clients import GetsetLock
from lockwork import ConfigError, Lockwork, ServerRefused
from lockwork.compat.timestamp import TimestampLock

KEY = "goods100"
A1 = "Lock:sale"


def test_values_are_unique_and_not_before_the_end_of_the_lease(lw: Lockwork, admin: redis.Redis) -> None:
    seen = set()
    for _ in range(50):
        before = time.time()
        with TimestampLock(lw, KEY, lease=10):
            value = admin.get(KEY)
            assert value is not None
            seen.add(value)
            assert before + 10 <= float(value) <= time.time() + 11
    assert len(seen) == 50


def test_expire_and_is_locking(lw: Lockwork, admin: redis.Redis) -> None:
    """A1's other operations."""
    ours = TimestampLock(lw, A1, lease=5)
    assert not ours.held()
    with ours:
        assert ours.held()
        ours.extend(60)
        assert admin.ttl(A1) > 50
        ours.extend(1)  # never shorter: another client may rely on it
        assert admin.ttl(A1) > 50
    assert not ours.held()
    assert not ours.locked()


def test_force_release(lw: Lockwork, admin: redis.Redis) -> None:
    ours = TimestampLock(lw, KEY)
    assert not ours.force_release()
    assert GetsetLock(admin).lock(KEY, 60)
    assert ours.force_release()
    assert not ours.locked()


@pytest.mark.parametrize(
    ("value", "said"),
    [(b"free", "not a time"), (b"", "not a time"), (b"-5", "not a time"), (b"1e9", "not a time"),
     (b"1" * 41, "not a time"), (b"1795000000000", "unit="), (b"\xff", "not a time")],
)  # fmt: skip
def test_values_that_are_no_times(lw: Lockwork, admin: redis.Redis, value: bytes, said: str) -> None:
    admin.set(KEY, value)
    with pytest.raises(ServerRefused, match=said):
        TimestampLock(lw, KEY).acquire()
    assert admin.get(KEY) == value


def test_unknown_unit_is_refused(lw: Lockwork) -> None:
    with pytest.raises(ConfigError, match="unit"):
        TimestampLock(lw, KEY, unit="us")  # type: ignore[arg-type]
