"""One key shared with redis-py's own Lock, both ways, from threads and from tasks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis
import redis.asyncio
from redis.exceptions import LockNotOwnedError

from lockwork import LockLost, LockTimeout, Lockwork
from lockwork.compat.plain import PlainLock
from processes import until

KEY = "goods:100"


@pytest.fixture
async def theirs(url: str, admin: redis.Redis) -> AsyncIterator[redis.asyncio.Redis]:
    """Their asyncio client."""
    client = redis.asyncio.Redis.from_url(url)
    yield client
    await client.aclose()


def test_redis_py_lock_blocks_lockwork_until_it_is_released(lw: Lockwork, admin: redis.Redis) -> None:
    their = admin.lock(KEY, timeout=30)
    ours = PlainLock(lw, KEY)
    assert their.acquire(blocking=False)
    assert ours.try_acquire() is None
    assert ours.locked()
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(lambda: ours.acquire(wait=30))
        until(lambda: admin.info("commandstats").get("cmdstat_evalsha", {}).get("calls", 0) > 5, "it tries")
        their.release()
        grant = waiting.result(30)
        assert admin.get(KEY) != their.local.token
        grant.release()
    assert not ours.locked()


def test_our_lock_keeps_theirs_out_until_it_is_released(lw: Lockwork, admin: redis.Redis) -> None:
    ours = PlainLock(lw, KEY)
    their = admin.lock(KEY, timeout=30, sleep=0.01, thread_local=False)
    with ours as grant:
        assert not their.acquire(blocking=False)
        assert their.locked()
        with ThreadPoolExecutor() as pool:
            waiting = pool.submit(lambda: their.acquire(blocking_timeout=30))
            assert not grant.lost
            ours.release()
            assert waiting.result(30)
        assert their.owned()
    their.release()


async def test_libraries_block_each_other_in_asyncio(alw: Lockwork, theirs: redis.asyncio.Redis) -> None:
    ours = PlainLock(alw, KEY)
    their = theirs.lock(KEY, timeout=30, sleep=0.01)
    async with ours:
        assert not await their.acquire(blocking=False)
        waiting = asyncio.create_task(their.acquire(blocking_timeout=30))
        await asyncio.sleep(0)
    assert await waiting
    with pytest.raises(LockTimeout):
        await ours.aacquire(wait=0)
    own = asyncio.create_task(ours.aacquire(wait=30))
    await asyncio.sleep(0)
    await their.release()
    grant = await own
    assert not grant.lost
    assert await their.locked()
    await grant.arelease()
    assert not await their.locked()


def test_expired_redis_py_lock_is_granted_to_lockwork(lw: Lockwork, admin: redis.Redis) -> None:
    their = admin.lock(KEY, timeout=0.3)
    assert their.acquire()
    with PlainLock(lw, KEY, wait=30) as grant:
        with pytest.raises(LockNotOwnedError):
            their.release()
        assert not grant.lost
        assert admin.exists(KEY)


def test_lock_expired_here_is_granted_to_redis_py(lw: Lockwork, admin: redis.Redis) -> None:
    their = admin.lock(KEY, timeout=30, sleep=0.01)
    grant = PlainLock(lw, KEY, lease=0.3).acquire()
    assert their.acquire(blocking_timeout=30)
    with pytest.raises(LockLost):
        grant.release()
    with pytest.raises(LockLost):
        grant.extend(60)
    assert their.owned()
    their.release()


def test_ours_is_renewed_and_stays_taken(lw: Lockwork, admin: redis.Redis, url: str) -> None:
    with Lockwork(url, lock_lease=1.5) as app, PlainLock(app, KEY) as grant:
        first = grant._hold.lease.deadline if grant._hold.lease else 0.0
        until(lambda: grant._hold.lease is not None and grant._hold.lease.deadline > first, "it is renewed")
        assert not admin.lock(KEY, timeout=1).acquire(blocking=False)
        assert 0 < admin.pttl(KEY) <= 1500


def test_redis_py_lock_without_a_timeout_never_expires(lw: Lockwork, admin: redis.Redis) -> None:
    their = admin.lock(KEY)
    assert their.acquire()
    ours = PlainLock(lw, KEY)
    assert ours.inspect().expires_in is None
    with pytest.raises(LockTimeout):
        ours.acquire(wait=0.3)
    assert their.owned()
    their.release()


def test_redis_py_lock_can_be_force_released_but_not_released(lw: Lockwork, admin: redis.Redis) -> None:
    their = admin.lock(KEY, timeout=30)
    assert their.acquire()
    ours = PlainLock(lw, KEY)
    assert ours.force_release()
    assert not ours.force_release()
    with pytest.raises(LockNotOwnedError):
        their.release()
