"""Bugs that pottery, aioredlock, coredis, portalocker and others have had: each test fails if ours has it."""

from __future__ import annotations

import asyncio
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis

from lockwork import LockLost, LockTimeout, Lockwork
from lockwork.errors import NotReplicated
from processes import script, until


def _text(value: bytes | str) -> str:
    return value if isinstance(value, str) else value.decode()


def waiting(lw: Lockwork, count: int = 1) -> None:
    until(lambda: lw.lock("x").inspect().waiters == count, f"{count} wait")


def test_pottery_reacquire(lw: Lockwork, other: Lockwork) -> None:
    """pottery: acquiring a held object again overwrote its token, and the lock could not be released any more."""
    lock = lw.lock("x")
    first = lock.acquire()
    assert lock.acquire() is first
    assert lock.acquire(wait=0) is first
    for _ in range(3):
        assert other.lock("x").try_acquire() is None
        lock.release()
    with other.lock("x", wait=0):
        pass


def test_aioredlock_gives_up(lw: Lockwork, other: Lockwork) -> None:
    """aioredlock: three tries, then an error, regardless of the caller's wait."""
    with ThreadPoolExecutor(1) as pool:
        with lw.lock("x"):
            done = pool.submit(lambda: other.lock("x", wait=30).acquire())
            waiting(lw)
            until(lambda: not done.done() and lw.lock("x").inspect().waiters, "it still waits")
            with pytest.raises(TimeoutError):
                done.result(1)
        done.result(30).release()


def test_coredis_replication_error(lw: Lockwork, other: Lockwork) -> None:
    """coredis: with too few replicas, it deleted the key without checking the owner."""
    with other.lock("x") as theirs:
        with pytest.raises(LockTimeout):
            lw.lock("x", wait=0, replicas=2).acquire()
        assert lw.lock("x").inspect().fence == theirs.fence
    with ThreadPoolExecutor(1) as pool:
        ours = lw.lock("x", replicas=2)
        with other.lock("x"):
            mine = pool.submit(ours.acquire)
            waiting(lw)
        with pytest.raises(NotReplicated):
            mine.result(30)
    with other.lock("x", wait=0) as theirs:
        assert lw.lock("x").inspect().fence == theirs.fence


def test_portalocker_136_and_141(url: str, other: Lockwork, admin: redis.Redis) -> None:
    """portalocker #136, #141: trouble with the connection interrupted the main thread of processes that only waited."""
    interrupted = []
    before = signal.signal(signal.SIGINT, lambda *_: interrupted.append("SIGINT"))
    try:
        with Lockwork(url, lock_lease=0.6) as app, ThreadPoolExecutor(2) as pool:
            theirs = other.lock("x").acquire()
            waiter = pool.submit(lambda: app.lock("x").acquire())
            waiting(other)
            lost = pool.submit(_lose, app, admin)
            assert isinstance(lost.result(30), LockLost)
            admin.client_kill_filter(_type="pubsub")
            theirs.release()
            waiter.result(30).release()
    finally:
        signal.signal(signal.SIGINT, before)
    assert interrupted == []


def _lose(app: Lockwork, admin: redis.Redis) -> BaseException | None:
    grant = app.lock("another").acquire()
    admin.delete("lw:{lock:another}")
    until(lambda: grant.lost, "it is lost_grants")
    try:
        grant.release()
    except LockLost as error:
        return error
    return None


async def test_portalocker_137(url: str, admin: redis.Redis) -> None:
    """portalocker #137:

    a holder whose lock was gone never noticed. Our holder is notified, cancelled, and gets LockLost.
    """
    lost_grants: list[object] = []
    async with Lockwork(url, lock_lease=0.9) as app:
        with pytest.raises(LockLost):
            async with app.lock("x", on_lost=lost_grants.append):
                admin.delete("lw:{lock:x}")
                await asyncio.sleep(60)
        await asyncio.to_thread(until, lambda: lost_grants, "the callback")


@pytest.mark.parametrize("lost", [False, True])
def test_portalocker_140(lw: Lockwork, admin: redis.Redis, lost: bool) -> None:
    """portalocker #140: an error in the release took the place of the body's own."""
    with pytest.raises(ZeroDivisionError), lw.lock("x"):
        if lost:
            admin.delete("lw:{lock:x}")
        _ = 1 / 0
    assert lw.lock("x").acquire(wait=0).fence
    lw.lock("x").release()


def test_py_redis_semaphore_fence(lw: Lockwork, admin: redis.Redis) -> None:
    """py-redis-semaphore: the fence was a counter on the server, which goes back with the server's data."""
    fences = []
    for _ in range(3):
        with lw.lock("x") as grant:
            fences.append(grant.fence)
        admin.flushall()
    assert sorted(set(fences)) == fences


def test_py_redis_semaphore_notify(lw: Lockwork, url: str) -> None:
    """py-redis-semaphore: a crash between the release and the separate wake-up left the waiter asleep."""
    dying = """
import os
from lockwork import Lockwork
lw = Lockwork()
grant = lw.lock("x").acquire()
print("held", flush=True)
input()
grant.release()
os._exit(0)
"""
    with script(dying, url=url) as process, ThreadPoolExecutor(1) as pool:
        assert process.line() == "held"
        next_one = pool.submit(lambda: lw.lock("x", lease=60).acquire())
        waiting(lw)
        process.tell("release")
        next_one.result(30).release()


def test_py_redis_semaphore_reentry(lw: Lockwork, other: Lockwork) -> None:
    """py-redis-semaphore: entering again was not counted, so the inner release let others in."""
    with lw.lock("x"):
        with lw.lock("x"):
            pass
        assert other.lock("x").try_acquire() is None


def test_sherlock_66(lw: Lockwork, other: Lockwork) -> None:
    """sherlock #66: renew() released the lock."""
    with lw.lock("x", lease=5) as grant:
        grant.extend(5)
        assert other.lock("x").try_acquire() is None
