"""Bugs that other Python locks have had (redis-py's Lock, aredis, redbeat): each test fails if ours has it."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis

from lockwork import LockLost, LockTimeout, Lockwork, NotHeld, ServerUnavailable
from lockwork.protocol.scripts import script
from processes import until
from proxy import Proxy


def test_redis_py_1031(lw: Lockwork, url: str) -> None:
    """redis-py #1031:

    the lease ended between the release's check and its delete, so it deleted another holder's lock. Release and
    expiry race here: the second holder must still have its lock afterwards.
    """
    with Lockwork(url) as other, ThreadPoolExecutor(1) as pool:
        for lease_ms in range(100, 138, 2):
            first = lw.lock("x", lease=lease_ms / 1000).acquire()
            waiting = pool.submit(lambda: other.lock("x", wait=30).acquire())
            try:
                until(lambda late=first: late.remaining < 0.002, "its lease is about to end")  # type: ignore[misc]
                first.release()
            except LockLost:
                pass
            second = waiting.result(30)
            assert lw.lock("x").try_acquire() is None
            assert lw.lock("x").inspect().fence == second.fence
            second.release()


def test_redis_py_415(lw: Lockwork, url: str) -> None:
    """redis-py #415: a release after the lease deleted the lock of the second holder, and a third got it."""
    first = lw.lock("x", lease=0.1).acquire()
    with Lockwork(url) as other, other.lock("x", wait=30) as second:
        with pytest.raises(LockLost):
            first.release()
        assert lw.lock("x").try_acquire() is None
        assert lw.lock("x").inspect().fence == second.fence


def test_redis_py_416(lw: Lockwork) -> None:
    """redis-py #416: with one Lock object shared by threads, a late thread released the next thread's lock."""
    shared = lw.lock("x", lease=0.1)
    first = shared.acquire()
    with ThreadPoolExecutor(1) as pool:
        second = pool.submit(lambda: lw.lock("x", wait=30).acquire()).result(30)
        with pytest.raises(LockLost):
            shared.release()
        assert first.lost
        assert not second.lost
        assert lw.lock("x").inspect().fence == second.fence
        second.release()


def test_redis_py_554_818_902(lw: Lockwork, proxy: Proxy, admin: redis.Redis) -> None:
    """redis-py #554, #818, #902: a crash between SETNX and PEXPIRE left a lock that never ends.

    Here the client is cut off right after its call was applied; there is no second one, and the key has an expiry.
    """
    with Lockwork(proxy.url, patience=1) as app:
        with app.lock("warm"):
            pass
        proxy.lose(script("locks/acquire").sha, "reply")
        proxy.refuse(True)  # from then on
        with pytest.raises(ServerUnavailable):
            app.lock("x", lease=30).acquire()
        assert proxy.lost == 1
        assert 0 < lw.lock("x").remaining() <= 30
        assert [key for key in admin.scan_iter(match="lw:{lock:*") if admin.pttl(key) < 0] == []
        proxy.refuse(False)


async def test_redis_py_3847(alw: Lockwork, url: str) -> None:
    """redis-py #3847: a release that was cancelled forgot its token, and the lock stayed taken until its timeout."""
    async with Lockwork(url) as other:
        for turns in range(15):
            grant = await alw.lock("x").aacquire()
            task = asyncio.create_task(grant.arelease())
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            if not turns:
                await grant.arelease()  # the release was cancelled before it began, so it must still be possible
            async with other.lock("x", wait=5):  # the lease is 15 s
                pass


def test_redis_py_656(lw: Lockwork) -> None:
    """redis-py #656: a release in another thread than the acquiring one failed with AttributeError."""
    grant = lw.lock("x").acquire()
    with ThreadPoolExecutor(1) as pool:
        with pytest.raises(NotHeld, match="not held by this thread"):
            pool.submit(lw.lock("x").release).result(30)
        pool.submit(grant.release).result(30)
    assert not lw.lock("x").locked()


async def test_aredis_119(alw: Lockwork) -> None:
    """aredis #119: the token lay in a thread local, so that a task released the lock of another one of its thread."""
    held, done = asyncio.Event(), asyncio.Event()

    async def holder() -> None:
        async with alw.lock("x") as grant:
            held.set()
            await done.wait()
            assert not grant.lost

    async def stranger() -> None:
        await held.wait()
        lock = alw.lock("x")
        assert not lock.held()
        assert await lock.atry_acquire() is None
        with pytest.raises(NotHeld):
            await lock.arelease()
        done.set()

    await asyncio.gather(holder(), stranger())


async def test_redis_py_621(alw: Lockwork, url: str) -> None:
    """redis-py #621: for three years the body of `with` ran without the lock when the wait was over."""
    entered = []
    with Lockwork(url) as other:
        async with alw.lock("x"):
            with pytest.raises(LockTimeout):
                async with other.lock("x", wait=0.05):
                    entered.append("async with")

            def block() -> None:
                with other.lock("x", wait=0.05):
                    entered.append("with")

            with pytest.raises(LockTimeout):
                await asyncio.to_thread(block)
    assert entered == []


def test_redbeat_127(lw: Lockwork, url: str) -> None:
    """sibson/redbeat #127:

    each extend added its time to the remaining lease, and the lock was acquired more than once.
    """
    grant = lw.lock("x", lease=2).acquire()
    for _ in range(20):
        grant.extend(2)
    assert lw.lock("x").remaining() <= 2
    with Lockwork(url) as other:
        assert other.lock("x").try_acquire() is None
        with other.lock("x", wait=30) as next_one:
            with pytest.raises(LockLost):
                grant.extend(60)
            assert lw.lock("x").inspect().fence == next_one.fence
    with pytest.raises(LockLost):
        grant.release()


def test_redis_py_default_retries(lw: Lockwork, proxy: Proxy) -> None:
    """redis-py repeats commands ten times by default: SET NX then waits for its own orphan, and the release fails."""
    with Lockwork(proxy.url) as app:
        with app.lock("warm"):
            pass
        proxy.lose(script("locks/acquire").sha, "reply")
        with app.lock("x", wait=0) as grant:
            assert proxy.lost == 1
            proxy.lose(script("locks/release").sha, "reply")
            assert lw.lock("x").inspect().fence == grant.fence
        assert proxy.lost == 2
        assert not lw.lock("x").locked()


async def test_redis_py_3255(url: str, alw: Lockwork) -> None:
    """redis-py #3255: a hundred tasks on one lock, and some were stuck in acquire for good."""
    inside, turns = 0, 0

    async def turn(app: Lockwork) -> None:
        nonlocal inside, turns
        async with app.lock("x"):
            inside += 1
            assert inside == 1
            await asyncio.sleep(0)
            inside -= 1
            turns += 1

    async with Lockwork(url) as other, asyncio.timeout(50):
        await asyncio.gather(*(turn(app) for _ in range(50) for app in (alw, other)))
    assert turns == 100


def test_artemis_2371(url: str, admin: redis.Redis) -> None:
    """Artemis #2371, python-redis-lock: one server error ended the renewing thread without a report."""
    notified = threading.Event()
    with Lockwork(url, lock_lease=1.5) as app, app.lock("x", on_lost=lambda grant: notified.set()) as grant:
        lease = grant._hold.lease
        assert lease is not None
        for _ in range(2):
            before = lease.deadline
            admin.client_kill_filter(_type="normal", skipme=True)
            admin.script_flush()
            until(lambda late=before: lease.deadline > late, "it is renewed")  # type: ignore[misc]
        assert not notified.is_set()
        assert not grant.lost
