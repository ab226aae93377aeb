"""Bugs that Redisson's users met with renewal, ownership and fences, by number or release."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
import redis

from commandstats import script_calls
from lockwork import Grant, LockLost, Lockwork, NotHeld
from lockwork.protocol.scripts import script as load
from processes import until
from proxy import proxied


@pytest.fixture
def short(url: str, admin: redis.Redis) -> Iterator[Lockwork]:
    """An app whose leases are short, and so are renewed often."""
    with Lockwork(url, lock_lease=1.5) as app:
        yield app


@pytest.fixture
async def short_async(url: str, admin: redis.Redis) -> AsyncIterator[Lockwork]:
    """An app for asyncio tests with a lease of 1.5 s."""
    async with Lockwork(url, lock_lease=1.5) as app:
        yield app


def leases(lw: Lockwork) -> int:
    return len(lw.runtime.engine._book._leases)


def test_7272_release_racing_the_renewal(short: Lockwork, other: Lockwork, admin: redis.Redis) -> None:
    """Redisson #7272: cancelling the renewal raced its scheduling, and a released lock was renewed for ever."""
    with ThreadPoolExecutor(6) as pool:

        def turns(number: int) -> None:
            lock, end = short.lock(f"x{number}"), time.monotonic() + 1.5
            while time.monotonic() < end:
                with lock:
                    threading.Event().wait(0.0005 * (number + 1))

        for turn in [pool.submit(turns, number) for number in range(6)]:
            turn.result()
    assert leases(short) == 0
    before = script_calls(admin)
    threading.Event().wait(0.7)
    assert script_calls(admin) == before, "something is renewed still"
    assert not any(other.lock(f"x{number}").locked() for number in range(6))


def test_4698_holder_is_notified_of_loss(short: Lockwork, admin: redis.Redis) -> None:
    """Redisson #4698 (open since 2022): the renewal of a lost lock stops without notifying the holder."""
    lost_grants: list[Grant] = []
    with pytest.raises(LockLost), short.lock("x", on_lost=lost_grants.append) as grant:
        admin.delete("lw:{lock:x}")
        until(lambda: lost_grants, "the callback", 5)
        assert lost_grants == [grant]
        with pytest.raises(LockLost):
            grant.check()


def _ends(admin: redis.Redis) -> float:
    """Return the end of the lock's lease on this process's clock."""
    remaining_ms: int = admin.pttl("lw:{lock:x}")
    return time.monotonic() + remaining_ms / 1000


def test_2515_renewal_goes_on_after_a_time_out(url: str, admin: redis.Redis) -> None:
    """Redisson #2515: one renewal that timed out was the last one."""
    with proxied(url) as proxy, Lockwork(proxy.url, lock_lease=9) as lw, lw.lock("x") as grant:
        for phase in ("request", "reply", "request"):
            proxy.lose(load("locks/renew").sha, phase)
            lost = proxy.lost
            until(lambda lost=lost: proxy.lost > lost, "a renewal is lost")  # type: ignore[misc]
        last = _ends(admin)
        until(lambda: _ends(admin) > last + 0.5, "it is renewed")
        assert not grant.lost


@pytest.mark.parametrize("ends", ["quietly", "with an error"])
def test_3521_the_lock_of_a_thread_that_died(url: str, admin: redis.Redis, ends: str) -> None:
    """Redisson #3521: a thread ended without releasing, and its lock was renewed for ever.

    Here `with` is what ends a grant with its code; a bare acquire() is the process's own until it releases.
    """
    with Lockwork(url, lock_lease=0.6) as lw:

        def hold() -> None:
            with suppress(ValueError), lw.lock("x"):
                if ends != "quietly":
                    raise ValueError("mine")

        thread = threading.Thread(target=hold)
        thread.start()
        thread.join()
        assert not lw.lock("x").locked()
        assert leases(lw) == 0


def test_5698_watchdog_renews_after_a_second_acquire(short: Lockwork) -> None:
    """Redisson #5698: the watchdog was skipped for a reacquired lock, and two callers held it."""
    for _ in range(2):
        with short.lock("x") as grant:
            threading.Event().wait(2)
            assert not grant.lost
            assert short.lock("x").inspect().fence == grant.fence


@pytest.mark.parametrize("wait", [0, 5], ids=["try", "wait"])
async def test_3_16_3_interrupted_try_lock_is_not_renewed(short_async: Lockwork, wait: float) -> None:
    """Redisson 3.16.3: an interrupted tryLock continued to renew a lock without a holder."""
    lw = short_async
    await lw.lock("warm").ainspect()
    for count in range(12):
        task = asyncio.create_task(lw.lock("x").aacquire(wait=wait))
        for _ in range(count):
            await asyncio.sleep(0)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await (await task).arelease()
        assert leases(lw) == 0
        assert not await lw.lock("x").alocked()


def test_3_46_a_lock_that_was_entered_again_is_renewed(short: Lockwork) -> None:
    """Redisson 3.46: after re-entry and one unlock, the renewal stopped while the lock was held."""
    lock = short.lock("x")
    with lock as grant:
        with lock:
            pass
        threading.Event().wait(2)
        assert not grant.lost
        with lock:
            threading.Event().wait(2)
            assert not grant.lost


def test_4_4_0_a_zombie_does_not_renew_another_instances_grant(short: Lockwork, url: str) -> None:
    """Redisson 4.4.0: an instance continued to renew a lock that another instance had acquired."""
    zombie = short.lock("x").acquire()
    with Lockwork(url) as operator:
        assert operator.lock("x").force_release()
        grant = operator.lock("x", lease=1.2).acquire()
        until(lambda: zombie.lost, "the first is notified", 5)
        until(lambda: grant.lost, "the lease of the second, which nobody renews", 5)
        until(lambda: not operator.lock("x").locked(), "and the server agrees", 5)
        with suppress(LockLost):
            operator.lock("x").release()
    with pytest.raises(LockLost):
        zombie.release()


@pytest.mark.parametrize("number", [1824, 3580, 6662, 6878])
async def test_owner_is_the_asyncio_task_not_its_thread(alw: Lockwork, number: int) -> None:
    """Redisson #1824, #3580, #6662, #6878: the owner was a thread's number; pools and coroutines share or change it."""
    lock = alw.lock("x")
    entered = asyncio.Event()

    async def hold() -> None:
        async with lock:
            entered.set()
            await asyncio.sleep(0.05)
            await asyncio.to_thread(lambda: None)  # the owner stays the same after a call in another thread
            assert lock.held(), number

    task = asyncio.create_task(hold())
    await entered.wait()
    assert not lock.held()
    assert await lock.atry_acquire() is None  # same thread, another task
    with pytest.raises(NotHeld):
        await lock.arelease()
    await task
    assert not await lock.alocked()


def test_reentered_lock_keeps_its_fence(lw: Lockwork, admin: redis.Redis) -> None:
    """RedissonFencedLock: re-entry raised the token, so the holder's own earlier writes looked stale."""
    lock = lw.lock("x")
    with lock as outer, lock as inner:
        assert inner.fence == outer.fence
    with lock as later:
        assert later.fence > outer.fence
    admin.flushall()  # a counter key would begin anew here
    with lock as anew:
        assert anew.fence > later.fence


def test_granted_lease_has_the_requested_length(lw: Lockwork) -> None:
    """RedissonFencedLock.lockAndGetToken(leaseTime) ignored its arguments; a lease field was shared by all threads."""
    with ThreadPoolExecutor(2) as pool:
        hold = threading.Barrier(2)

        def take(name: str, lease: float) -> float:
            with lw.lock(name, lease=lease) as grant:
                hold.wait()
                return grant.remaining

        long, short = pool.submit(take, "a", 3000), pool.submit(take, "b", 30)
        assert long.result() > 2900
        assert short.result() <= 30
