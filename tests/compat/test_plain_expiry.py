"""Keys of clients that set the expiry of their lock in a second command, and died in between (SETNX, EXPIRE)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
import redis

from lockwork import ConfigError, LockTimeout, Lockwork
from lockwork.compat.plain import PlainLock

KEY = "PRODUCT_LOCK_KEY"


def test_key_that_lost_its_expiry_is_waited_for_by_default(lw: Lockwork, admin: redis.Redis) -> None:
    assert admin.setnx(KEY, "theirs")
    with pytest.raises(LockTimeout):
        PlainLock(lw, KEY).acquire(wait=1.3)
    assert admin.ttl(KEY) == -1


def test_key_that_lost_its_expiry_ends_after_missing_expiry(lw: Lockwork, admin: redis.Redis) -> None:
    assert admin.setnx(KEY, "theirs")
    ours = PlainLock(lw, KEY, missing_expiry="1s")
    assert ours.try_acquire() is None
    assert admin.get(KEY) == b"theirs"
    assert 0 < admin.pttl(KEY) <= 1000
    with ours.acquire(wait=30) as grant:
        assert grant.remaining > 0
        assert admin.get(KEY) == ours.token().encode()


async def test_key_that_lost_its_expiry_in_asyncio(alw: Lockwork, admin: redis.Redis) -> None:
    assert admin.setnx(KEY, "theirs")
    async with PlainLock(alw, KEY, wait=30, missing_expiry=0.3) as grant:
        assert grant.remaining > 0


def test_holder_that_sets_its_expiry_later_keeps_it(lw: Lockwork, admin: redis.Redis) -> None:
    """We polled between its two commands: its expiry counts."""
    assert admin.setnx(KEY, "theirs")
    ours = PlainLock(lw, KEY, missing_expiry="30s")
    assert ours.try_acquire() is None
    assert admin.expire(KEY, 3600)
    assert ours.try_acquire() is None
    assert admin.ttl(KEY) > 3500


def test_waiting_does_not_prolong_the_key(lw: Lockwork, admin: redis.Redis) -> None:
    assert admin.setnx(KEY, "theirs")

    def turn() -> None:
        with PlainLock(lw, KEY, wait=60, missing_expiry="2s"):
            pass

    with ThreadPoolExecutor(2) as pool:
        for one in [pool.submit(turn) for _ in range(2)]:
            one.result(60)


@pytest.mark.parametrize("value", [0, -1, "soon", True])
def test_bad_missing_expiry(lw: Lockwork, value: object) -> None:
    with pytest.raises(ConfigError, match="missing_expiry"):
        PlainLock(lw, KEY, missing_expiry=value)  # type: ignore[arg-type]
