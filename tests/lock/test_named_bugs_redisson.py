"""Bugs that Redisson's users met, by number or release, and that a lock of our kind could have."""

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
from lockwork import Grant, LockLost, LockTimeout, Lockwork, NotHeld
from lockwork.protocol.scripts import script as load
from processes import script, until
from proxy import proxied


@pytest.fixture
def short(url: str, admin: redis.Redis) -> Iterator[Lockwork]:
    """An app whose leases are short, and so are renewed often."""
    with Lockwork(url, lock_lease=0.6) as app:
        yield app


@pytest.fixture
async def short_async(url: str, admin: redis.Redis) -> AsyncIterator[Lockwork]:
    """The same for tasks."""
    async with Lockwork(url, lock_lease=0.6) as app:
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


def test_4698_a_holder_is_told_of_its_loss(short: Lockwork, admin: redis.Redis) -> None:
    """Redisson #4698 (open since 2022): a lost lock is noticed by nobody; the renewal stops without a word."""
    told: list[Grant] = []
    with pytest.raises(LockLost), short.lock("x", on_lost=told.append) as grant:
        admin.delete("lw:{lock:x}")
        until(lambda: told, "the callback", 5)
        assert told == [grant]
        with pytest.raises(LockLost):
            grant.check()


@pytest.mark.parametrize("number", [1763, 3891])
def test_an_unlock_whose_message_is_lost(url: str, other: Lockwork, admin: redis.Redis, number: int) -> None:
    """Redisson #1763, #3891: a missed unlock message let a waiter sleep for the rest of the lease, about 35 s."""
    with Lockwork(url, lock_lease=60) as lw, ThreadPoolExecutor(1) as pool:
        lock = other.lock("x")
        grant = lock.acquire()
        waiting = pool.submit(lambda: lw.lock("x", wait=50).acquire())
        until(lambda: lock.state().waiters == 1, "it waits")
        # its subscription is cut and the release comes before it is back
        admin.execute_command("CLIENT", "KILL", "TYPE", "pubsub", "SKIPME", "yes")  # type: ignore[no-untyped-call]
        began = time.monotonic()
        lock.release()
        theirs = waiting.result(10)
        assert time.monotonic() - began < 4, number
        assert theirs.fence > grant.fence
        theirs.release()


DIES_IN_LINE = "from lockwork import Lockwork\nLockwork().lock('x').acquire()\n"


@pytest.mark.parametrize("number", [1104, 2883, 3004, 3730])
def test_a_fair_lock_whose_waiters_died(lw: Lockwork, url: str, number: int) -> None:
    """Redisson #1104, #2883, #3004, #3730: dead waiters at the head of the fair line stalled it, some for ever."""
    dead = 1 + number % 3
    lock = lw.lock("x")
    with ThreadPoolExecutor(1) as pool:
        lock.acquire()
        for count in range(1, dead + 1):
            with script(DIES_IN_LINE, url=url) as waiter:
                until(lambda count=count: lock.state().waiters == count, "it waits")  # type: ignore[misc]
                waiter.process.kill()
                waiter.process.wait()
        alive = pool.submit(lambda: lw.lock("x", wait=50).acquire())
        until(lambda: lock.state().waiters == dead + 1, "the live one waits")
        threading.Event().wait(0.1)
        began = time.monotonic()
        lock.release()
        grant = alive.result()
        # one dead waiter may be handed the lock, for the four seconds in which it would have to claim it; those
        # behind it are alike dead, so the live one steps in
        assert time.monotonic() - began < 4 * dead + 1
        grant.release()


def test_2099_waiting_times_do_not_drift(lw: Lockwork) -> None:
    """Redisson #2099: every waiter that gave up or got the fair lock moved the time-outs of the others."""
    lock = lw.lock("x")
    with lock, ThreadPoolExecutor(6) as pool:

        def wait(seconds: float) -> float:
            began = time.monotonic()
            with pytest.raises(LockTimeout):
                lw.lock("x").acquire(wait=seconds)
            return time.monotonic() - began - seconds

        late = list(pool.map(wait, [0.2, 0.4, 0.6, 0.8, 1.0, 1.2]))
        assert all(-0.001 <= one < 0.5 for one in late), late
        assert lock.state().waiters == 0


def test_2515_renewal_goes_on_after_a_time_out(url: str, admin: redis.Redis) -> None:
    """Redisson #2515: one renewal that timed out was the last one."""
    with proxied(url) as proxy, Lockwork(proxy.url, lock_lease=1.5) as lw, lw.lock("x") as grant:
        for phase in ("request", "reply", "request"):
            proxy.lose(load("lock_renew").sha, phase)
            lost = proxy.lost
            until(lambda lost=lost: proxy.lost > lost, "a renewal is lost", 5)  # type: ignore[misc]
        threading.Event().wait(1.6)
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


def test_5698_the_watchdog_of_the_second_acquire(short: Lockwork) -> None:
    """Redisson #5698: the watchdog was skipped for a lock that was taken again, and two held it."""
    for _ in range(2):
        with short.lock("x") as grant:
            threading.Event().wait(0.9)
            assert not grant.lost
            assert short.lock("x").state().fence == grant.fence


@pytest.mark.parametrize("phase", ["request", "reply"])
def test_4871_an_unlock_that_is_sent_again(url: str, other: Lockwork, phase: str) -> None:
    """Redisson #4871: the retry of an unlock whose reply was lost failed, or ended the next one's lock."""
    with proxied(url) as proxy, Lockwork(proxy.url) as lw, ThreadPoolExecutor(1) as pool:
        grant = lw.lock("x").acquire()
        waiting = pool.submit(lambda: other.lock("x", wait=30).acquire())
        until(lambda: other.lock("x").state().waiters == 1, "it waits")
        proxy.lose(load("lock_release").sha, phase)  # type: ignore[arg-type]
        grant.release()
        assert proxy.lost == 1
        theirs = waiting.result()
        assert not theirs.lost
        assert other.lock("x").state().fence == theirs.fence
        theirs.release()


@pytest.mark.parametrize("wait", [0, 5], ids=["try", "wait"])
async def test_3_16_3_an_interrupted_try_lock(short_async: Lockwork, wait: float) -> None:
    """Redisson 3.16.3: tryLock that was interrupted went on renewing the lock that nobody had."""
    lw = short_async
    await lw.lock("warm").astate()
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
        threading.Event().wait(0.9)
        assert not grant.lost
        with lock:
            threading.Event().wait(0.9)
            assert not grant.lost


def test_4_4_0_a_zombie_does_not_renew_another_instances_grant(short: Lockwork, url: str) -> None:
    """Redisson 4.4.0: an instance went on renewing a lock that another instance held by then."""
    zombie = short.lock("x").acquire()
    with Lockwork(url) as operator:
        assert operator.lock("x").force_release()
        grant = operator.lock("x", lease=1.2).acquire()
        until(lambda: zombie.lost, "the first is told", 5)
        until(lambda: grant.lost, "the lease of the second, which nobody renews", 5)
        until(lambda: not operator.lock("x").locked(), "and the server agrees", 5)
        with suppress(LockLost):
            operator.lock("x").release()
    with pytest.raises(LockLost):
        zombie.release()


@pytest.mark.parametrize("number", [1824, 3580, 6662, 6878])
async def test_the_owner_is_the_task_not_its_thread(alw: Lockwork, number: int) -> None:
    """Redisson #1824, #3580, #6662, #6878: the owner was a thread's number; pools and coroutines share or change it."""
    lock = alw.lock("x")
    entered = asyncio.Event()

    async def hold() -> None:
        async with lock:
            entered.set()
            await asyncio.sleep(0.05)
            await asyncio.to_thread(lambda: None)  # goes elsewhere and comes back: the same owner
            assert lock.held(), number

    task = asyncio.create_task(hold())
    await entered.wait()
    assert not lock.held()
    assert await lock.atry_acquire() is None  # same thread, another task
    with pytest.raises(NotHeld):
        await lock.arelease()
    await task
    assert not await lock.alocked()


def test_the_fence_of_a_lock_that_is_entered_again(lw: Lockwork, admin: redis.Redis) -> None:
    """RedissonFencedLock: re-entry raised the token, so the holder's own earlier writes looked stale."""
    lock = lw.lock("x")
    with lock as outer, lock as inner:
        assert inner.fence == outer.fence
    with lock as later:
        assert later.fence > outer.fence
    admin.flushall()  # a counter key would begin anew here
    with lock as anew:
        assert anew.fence > later.fence


def test_the_lease_that_was_given_is_the_lease(lw: Lockwork) -> None:
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


def test_one_unlock_wakes_one_waiter(lw: Lockwork, other: Lockwork, admin: redis.Redis) -> None:
    """Redisson's waiters all try again at every unlock: P waiting processes cost P - 1 wasted calls."""
    with ThreadPoolExecutor(8) as pool:
        lock = lw.lock("x")
        lock.acquire()
        waiting = [pool.submit(lambda: other.lock("x", wait=30).acquire()) for _ in range(8)]
        until(lambda: lock.state().waiters == 8, "all wait")
        threading.Event().wait(1.2)
        before = script_calls(admin)
        lock.release()
        until(lambda: sum(one.done() for one in waiting) == 1, "one has it")
        calls = script_calls(admin) - before
        assert calls <= 6, calls
        done = 0
        while done < 8:
            for one in [one for one in waiting if one.done()]:
                waiting.remove(one)
                one.result().release()
                done += 1
            threading.Event().wait(0.002)


@pytest.mark.parametrize("number", [1847, 4216, 3577, 4064])
async def test_a_thousand_waiters_share_one_subscription(alw: Lockwork, admin: redis.Redis, number: int) -> None:
    """Redisson #1847, #4216, #3577, #4064: waiters on many locks used up the pool of subscriptions and timed out."""
    count = 200 + number % 50
    names = [f"x{place}" for place in range(count)]
    async with asyncio.TaskGroup() as group:
        inside = asyncio.Event()

        async def hold() -> None:
            for name in names:
                await alw.lock(name).aacquire()
            inside.set()
            while sum([(await alw.lock(name).astate()).waiters for name in names]) < count:
                await asyncio.sleep(0.01)
            subscribed = [one for one in admin.client_list() if int(one["sub"])]
            assert len(subscribed) <= 1
            for name in names:
                await alw.lock(name).arelease()

        async def turn(name: str) -> None:
            await inside.wait()
            async with alw.lock(name, wait=30):
                pass

        group.create_task(hold())
        for name in names:
            group.create_task(turn(name))
