"""Bugs of JavaScript's locks, by project, that a lock of our kind could have."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis

from lockwork import LockLost, Lockwork, ServerUnavailable
from lockwork.protocol.scripts import script as load
from processes import until
from proxy import proxied


@pytest.mark.parametrize("number", [166, 169])
def test_redlock_counts_the_lease_from_the_try_that_got_it(lw: Lockwork, other: Lockwork, number: int) -> None:
    """node-redlock #166, #169: the lease was counted from the first attempt, so a caller that waited had too little."""
    with ThreadPoolExecutor(1) as pool:
        lock = other.lock("x")
        lock.acquire()

        def wait() -> float:
            with lw.lock("x", lease=5, wait=30) as grant:
                return grant.remaining

        waiting = pool.submit(wait)
        until(lambda: lock.inspect().waiters == 1, "it waits")
        threading.Event().wait(1)
        lock.release()
        assert waiting.result() > 4.1, number


async def test_redlock_309_timed_out_caller_does_not_wait_for_the_lock(alw: Lockwork, url: str) -> None:
    """node-redlock #309: an abort still waited until the lock was released."""
    async with Lockwork(url) as other, other.lock("x"):
        began = time.monotonic()
        task = asyncio.create_task(alw.lock("x").aacquire())
        while not (await other.lock("x").ainspect()).waiters:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert time.monotonic() - began < 5
        assert (await other.lock("x").ainspect()).waiters == 0


def test_redlock_369_a_try_with_a_lost_reply_does_not_block_the_next(url: str, other: Lockwork) -> None:
    """node-redlock PR #369: an acquire that was applied, but not answered, blocked its own retry."""
    with proxied(url) as proxy, Lockwork(proxy.url) as lw:
        lw.lock("x").inspect()
        proxy.lose(load("locks/acquire").sha, "reply")
        began = time.monotonic()
        with lw.lock("x", wait=10) as grant:
            assert proxy.lost == 1
            assert time.monotonic() - began < 4
            assert other.lock("x").inspect().fence == grant.fence
        assert not other.lock("x").locked()


def test_sim_6864_a_try_that_timed_out_does_not_take_the_lock(url: str, other: Lockwork) -> None:
    """sim #6864: an acquire that its caller had given up took the lock afterwards, for three minutes."""
    with proxied(url) as proxy, Lockwork(proxy.url, patience=1) as lw:
        lw.lock("x").inspect()
        proxy.lose(load("locks/acquire").sha, "reply")
        proxy.refuse(True)
        with pytest.raises(ServerUnavailable):
            lw.lock("x", lease=2).acquire(wait=0.3)
        proxy.refuse(False)
        # the engine renews only leases that it knows, so this one ends
        with other.lock("x", wait=10) as grant:
            assert not grant.lost


def test_redis_semaphore_177_a_lost_lock_is_not_taken_again_behind_the_holders_back(
    url: str, admin: redis.Redis
) -> None:
    """redis-semaphore #177: after a loss, the refresh acquired the lock again, and the work continued."""
    with Lockwork(url, lock_lease=0.6) as lw:
        with pytest.raises(LockLost), lw.lock("x") as grant:
            admin.delete("lw:{lock:x}")
            until(lambda: grant.lost, "it is notified", 5)
            threading.Event().wait(0.6)
            assert grant.lost
            assert not admin.exists("lw:{lock:x}")


def test_redis_semaphore_205_many_holders_keep_their_permits(url: str, admin: redis.Redis) -> None:
    """redis-semaphore #205: under contention, refreshes came too late for many locks at once."""
    with Lockwork(url, lock_lease=1) as lw, ThreadPoolExecutor(4) as pool:
        grants = [lw.lock(f"held{number}").acquire() for number in range(300)]
        end = time.monotonic() + 2

        def turns() -> None:
            while time.monotonic() < end:
                with lw.lock("busy"):
                    pass

        for one in [pool.submit(turns) for _ in range(4)]:
            one.result()
        assert not [grant.name for grant in grants if grant.lost]
        for grant in grants:
            grant.release()
