"""Force-release: notifies the holder at once, serves the next waiter, and ends nothing else."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis

from indexed import keys_but_indexes
from lockwork import Grant, LockLost, Lockwork, NotHeld
from lockwork.protocol.locks import grants
from lockwork.protocol.scripts import script as load
from processes import script, until
from proxy import proxied

AT_ONCE = 5.0
"""Seconds within which the holder is notified; the leases of these tests are much longer."""

HOLDER = """
import asyncio
from lockwork import LockLost, Lockwork
async def main():
    async with Lockwork(lock_lease=60) as lw:
        try:
            async with lw.lock("x") as grant:
                print(grant.fence, flush=True)
                await asyncio.sleep(50)
        except LockLost:
            print("LockLost", flush=True)
asyncio.run(main())
"""


@pytest.fixture
def operator(url: str, admin: redis.Redis) -> Iterator[Lockwork]:
    with Lockwork(url) as app:
        yield app


@pytest.mark.parametrize("lease", [None, "1h"], ids=["renewed", "fixed"])
def test_thread_is_notified_at_once(url: str, operator: Lockwork, lease: str | None) -> None:
    told: list[Grant] = []
    with (
        Lockwork(url, lock_lease="30m") as lw,
        pytest.raises(LockLost),
        lw.lock("x", lease=lease, on_lost=told.append) as grant,
    ):
        threading.Event().wait(0.2)  # until its engine has subscribed
        assert operator.lock("x").force_release()
        until(lambda: told, "the callback", AT_ONCE)
        assert told == [grant]
        assert grant.lost
        assert grant.remaining == 0
        with pytest.raises(LockLost):
            grant.check()


@pytest.mark.parametrize("lease", [None, "1h"], ids=["renewed", "fixed"])
async def test_force_release_cancels_the_body_of_a_task_at_once(
    url: str, operator: Lockwork, lease: str | None
) -> None:
    async with Lockwork(url, lock_lease="30m") as lw:
        began = time.monotonic()
        with pytest.raises(LockLost, match="body was cancelled"):
            async with lw.lock("x", lease=lease):
                await asyncio.sleep(0.2)  # until its engine has subscribed
                assert await operator.lock("x").aforce_release()
                await asyncio.sleep(30)
        assert time.monotonic() - began < AT_ONCE
        async with lw.lock("x", wait=0):
            pass


def test_holder_of_fixed_lease_is_notified_without_renewals(url: str, operator: Lockwork) -> None:
    """Checking its leases must not keep the engine busy until the lease ends."""
    with Lockwork(url) as lw:
        grant = lw.lock("x", lease=3).acquire()
        threading.Event().wait(0.2)
        operator.runtime.run(
            grants.force(lw.lock("x")._key, 1, operator.runtime.channel.removesuffix(operator.runtime.process))
        )  # the fence of another grant has no effect
        assert not grant.lost
        assert operator.lock("x").force_release()
        busy = time.process_time()
        threading.Event().wait(1)
        assert time.process_time() - busy < 0.5
        with pytest.raises(LockLost):
            grant.release()


def test_force_release_notifies_another_process_at_once(operator: Lockwork, url: str) -> None:
    with script(HOLDER, url=url) as holder:
        fence = int(holder.line())
        threading.Event().wait(0.2)
        assert operator.lock("x").force_release()
        with operator.lock("x", wait=0) as grant:
            assert grant.fence > fence
            began = time.monotonic()
            assert holder.line() == "LockLost"
            assert time.monotonic() - began < AT_ONCE
            assert not grant.lost


def test_next_waiter_gets_the_lock(url: str, operator: Lockwork) -> None:
    with Lockwork(url) as lw, ThreadPoolExecutor(2) as pool:
        first = lw.lock("x", lease="1h").acquire()

        def turn() -> int:
            with lw.lock("x", wait=30) as grant:
                assert not grant.lost
                return grant.fence

        turns = []
        for count in (1, 2):
            turns.append(pool.submit(turn))
            until(lambda count=count: operator.lock("x").inspect().waiters == count, "it waits")  # type: ignore[misc]
        assert operator.lock("x").force_release()
        second, third = (one.result() for one in turns)
        assert first.fence < second < third
        with pytest.raises(LockLost):
            first.release()


def test_force_release_of_a_free_lock_returns_false(operator: Lockwork, admin: redis.Redis) -> None:
    assert not operator.lock("x").force_release()
    assert not keys_but_indexes(admin)
    with operator.lock("x"):
        pass
    assert not operator.lock("x").force_release()


async def test_async_force_release_of_a_free_lock(alw: Lockwork) -> None:
    assert not await alw.lock("x").aforce_release()


def test_repeated_force_release_ends_one_grant_only(url: str, operator: Lockwork) -> None:
    """The call is repeated after a lost reply; by then another caller may hold the lock."""
    with Lockwork(url) as lw, proxied(url) as proxy, Lockwork(proxy.url) as shaky, ThreadPoolExecutor(1) as pool:
        first = lw.lock("x").acquire()
        waiting = pool.submit(lambda: lw.lock("x", wait=30).acquire())
        until(lambda: operator.lock("x").inspect().waiters == 1, "one waits")
        shaky.lock("x").inspect()
        proxy.lose(load("locks/force").sha, "reply")
        assert shaky.lock("x").force_release()
        assert proxy.lost == 1
        second = waiting.result()
        assert first.fence < second.fence
        assert not second.lost
        assert operator.lock("x").inspect().fence == second.fence
        second.release()
        with pytest.raises(LockLost):
            first.release()


def test_fence_selects_the_grant_that_force_release_ends(operator: Lockwork) -> None:
    lock = operator.lock("x")
    with lock as grant:
        channels = operator.runtime.channel.removesuffix(operator.runtime.process)
        for fence in (grant.fence - 1, grant.fence + 1, 0):
            assert not operator.runtime.run(grants.force(lock._key, fence, channels))
        assert not grant.lost
        assert lock.inspect().fence == grant.fence


def test_force_release_of_the_callers_own_lock_raises_lock_lost(operator: Lockwork) -> None:
    lock = operator.lock("x")
    with pytest.raises(LockLost), lock as grant:
        assert lock.force_release()
        until(lambda: grant.lost, "it is notified", AT_ONCE)
    assert not lock.locked()
    with pytest.raises(NotHeld):
        lock.release()


def test_force_release_of_a_sticky_lock_in_use_and_cached(url: str, operator: Lockwork) -> None:
    with Lockwork(url, lock_lease="30m") as lw:
        lock = lw.lock("x", sticky=True)
        with pytest.raises(LockLost), lock as grant:
            threading.Event().wait(0.2)
            assert operator.lock("x").force_release()
            until(lambda: grant.lost, "it is notified", AT_ONCE)
        with lock as again:
            assert again.fence > grant.fence
        kept = lw.lock("x").inspect()
        assert kept.fence == again.fence
        assert operator.lock("x").force_release()
        until(lambda: not lw.runtime.sticky_cache.idle, "it is not kept any more", AT_ONCE)
        with operator.lock("x", wait=0) as other:
            assert lock.try_acquire() is None
            assert not other.lost


def test_force_release_of_a_lock_held_for_its_minimum(operator: Lockwork) -> None:
    lock = operator.lock("x", at_least="1h")
    with lock as grant:
        pass
    assert lock.locked()
    assert lock.force_release()
    assert not lock.locked()
    with lock as again:
        assert again.fence > grant.fence
    assert lock.force_release()


def test_other_locks_of_the_holder_stay(url: str, operator: Lockwork) -> None:
    with Lockwork(url) as lw, lw.lock("y") as other:
        with pytest.raises(LockLost), lw.lock("x") as grant:
            threading.Event().wait(0.2)
            assert operator.lock("x").force_release()
            until(lambda: grant.lost, "it is notified", AT_ONCE)
        assert not other.lost
        other.check()
