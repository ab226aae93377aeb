"""Bugs that Redisson's users met with waiting, fair lines, lost messages and subscriptions, by number or release."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis

from clients import connections
from commandstats import script_calls
from lockwork import LockTimeout, Lockwork
from lockwork.protocol.scripts import script as load
from processes import script, until
from proxy import proxied


@pytest.mark.parametrize("number", [1763, 3891])
def test_unlock_with_a_lost_message_does_not_delay_the_waiter(
    url: str, other: Lockwork, admin: redis.Redis, number: int
) -> None:
    """Redisson #1763, #3891: a missed unlock message let a waiter sleep for the rest of the lease, about 35 s."""
    with Lockwork(url, lock_lease=60) as lw, ThreadPoolExecutor(1) as pool:
        lock = other.lock("x")
        grant = lock.acquire()
        waiting = pool.submit(lambda: lw.lock("x", wait=50).acquire())
        until(lambda: lock.inspect().waiters == 1, "it waits")
        # its subscription is cut and the release comes before it is back
        admin.execute_command("CLIENT", "KILL", "TYPE", "pubsub", "SKIPME", "yes")  # type: ignore[no-untyped-call]
        began = time.monotonic()
        lock.release()
        theirs = waiting.result(10)
        assert time.monotonic() - began < 4, number
        assert theirs.fence > grant.fence
        theirs.release()


DIES_IN_LINE = "from lockwork import Lockwork\nLockwork().lock('x').acquire()\n"


@pytest.mark.parametrize("dead", [1, 2])
def test_dead_waiters_do_not_stall_a_fair_lock(lw: Lockwork, url: str, dead: int) -> None:
    """Redisson #1104, #2883, #3004, #3730: dead waiters at the head of the fair line stalled it, some for ever."""
    lock = lw.lock("x")
    with ThreadPoolExecutor(1) as pool:
        lock.acquire()
        for count in range(1, dead + 1):
            with script(DIES_IN_LINE, url=url) as waiter:
                until(lambda count=count: lock.inspect().waiters == count, "it waits")  # type: ignore[misc]
                waiter.process.kill()
                waiter.process.wait()
        alive = pool.submit(lambda: lw.lock("x", wait=50).acquire())
        until(lambda: lock.inspect().waiters == dead + 1, "the live one waits")
        threading.Event().wait(0.1)
        began = time.monotonic()
        lock.release()
        grant = alive.result()
        # the server may grant the lock to one dead waiter, which has four seconds to claim it; the later waiters of
        # that process are dead too, so the live one follows
        assert time.monotonic() - began < 4 * dead + 1.5
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
        assert all(-0.001 <= one < 1.5 for one in late), late
        assert lock.inspect().waiters == 0


@pytest.mark.parametrize("phase", ["request", "reply"])
def test_4871_an_unlock_that_is_sent_again(url: str, other: Lockwork, phase: str) -> None:
    """Redisson #4871: the retry of an unlock whose reply was lost failed, or ended the next one's lock."""
    with proxied(url) as proxy, Lockwork(proxy.url) as lw, ThreadPoolExecutor(1) as pool:
        grant = lw.lock("x").acquire()
        waiting = pool.submit(lambda: other.lock("x", wait=30).acquire())
        until(lambda: other.lock("x").inspect().waiters == 1, "it waits")
        proxy.lose(load("locks/release").sha, phase)  # type: ignore[arg-type]
        grant.release()
        assert proxy.lost == 1
        theirs = waiting.result()
        assert not theirs.lost
        assert other.lock("x").inspect().fence == theirs.fence
        theirs.release()


def test_unlock_wakes_one_waiter(lw: Lockwork, other: Lockwork, admin: redis.Redis) -> None:
    """Redisson's waiters all try again at every unlock: P waiting processes cost P - 1 wasted calls."""
    with ThreadPoolExecutor(8) as pool:
        lock = lw.lock("x")
        lock.acquire()
        waiting = [pool.submit(lambda: other.lock("x", wait=30).acquire()) for _ in range(8)]
        until(lambda: lock.inspect().waiters == 8, "all wait")
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
async def test_waiters_on_many_locks_share_one_subscription(alw: Lockwork, admin: redis.Redis, number: int) -> None:
    """Redisson #1847, #4216, #3577, #4064: waiters on many locks used up the pool of subscriptions and timed out."""
    count = 200 + number % 50
    names = [f"x{place}" for place in range(count)]
    async with asyncio.TaskGroup() as group:
        inside = asyncio.Event()

        async def hold() -> None:
            for name in names:
                await alw.lock(name).aacquire()
            inside.set()
            while sum([(await alw.lock(name).ainspect()).waiters for name in names]) < count:
                await asyncio.sleep(0.01)
            subscribed = [one for one in connections(admin) if int(one["sub"])]
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
