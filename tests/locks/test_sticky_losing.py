"""A sticky lock that is lost, while it is only kept or while it is in use."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis

from locks.keeping import SOON
from lockwork import Grant, LockLost, Lockwork, NotHeld
from processes import until


def test_lost_cached_lock_is_acquired_anew(url: str, admin: redis.Redis, other: Lockwork) -> None:
    with Lockwork(url, lock_lease=0.6) as lw:
        lock = lw.lock("x", sticky=True)
        with lock as grant:
            pass
        admin.delete("lw:{lock:x}")
        until(lambda: not lw.runtime.sticky_cache.all, "the engine noticed", SOON)
        with other.lock("x", wait=0) as theirs:
            assert lock.try_acquire() is None
            assert not theirs.lost
        with lock as again:
            assert again.fence > grant.fence


def test_lost_while_it_is_in_use(url: str, admin: redis.Redis) -> None:
    told: list[Grant] = []
    with Lockwork(url, lock_lease=0.6) as lw:
        lock = lw.lock("x", sticky=True, on_lost=told.append)
        with lock:
            pass
        with pytest.raises(LockLost), lock as grant:
            admin.delete("lw:{lock:x}")
            until(lambda: told, "the holder is told", SOON)
            assert grant.lost
        assert told == [grant]
        assert not lw.runtime.sticky_cache.all
        with lock as again:
            assert not again.lost
        assert len(told) == 1


async def test_body_is_cancelled_when_its_cached_lock_is_lost(url: str, admin: redis.Redis) -> None:
    async with Lockwork(url, lock_lease=0.6) as lw:
        lock = lw.lock("x", sticky=True)
        async with lock:
            pass
        with pytest.raises(LockLost, match="body was cancelled"):
            async with lock:
                admin.delete("lw:{lock:x}")
                await asyncio.sleep(30)
        async with lock:
            pass


def test_on_lost_is_not_called_for_a_cached_lock(url: str, admin: redis.Redis) -> None:
    told: list[Grant] = []
    with Lockwork(url, lock_lease=0.6) as lw:
        with lw.lock("x", sticky=True, on_lost=told.append):
            pass
        admin.delete("lw:{lock:x}")
        until(lambda: not lw.runtime.sticky_cache.all, "the engine noticed", SOON)
    assert not told


def test_taken_again_in_a_body_that_has_lost_it(url: str, admin: redis.Redis) -> None:
    """The thread is still in its body, which must not reuse the lock that another thread has cached since."""
    with Lockwork(url, lock_lease=0.6) as lw, ThreadPoolExecutor(1) as pool:
        lock = lw.lock("x", sticky=True)

        def take() -> None:
            with lock:
                pass

        with pytest.raises(LockLost), lock as grant:
            admin.delete("lw:{lock:x}")
            until(lambda: grant.lost, "the holder is told", SOON)
            pool.submit(take).result()
            assert lw.runtime.sticky_cache.idle
            with pytest.raises(LockLost):
                lock.acquire()
        with lock as again:
            assert not again.lost
        with pytest.raises(NotHeld):
            lock.release()
