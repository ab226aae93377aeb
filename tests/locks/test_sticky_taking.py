"""A sticky lock that its own process takes again: without a call, and by one thread or task at a time."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis

from commandstats import script_calls
from locks.keeping import SOON
from lockwork import ConfigError, LockTimeout, Lockwork, NotHeld
from lockwork.errors import BlockingCallError
from processes import until


def test_taking_it_again_costs_no_call(lw: Lockwork, admin: redis.Redis) -> None:
    lock = lw.lock("x", sticky=True)
    with lock as first:
        pass
    assert lock.locked()
    assert not lock.held()
    before = script_calls(admin)
    for _ in range(100):
        with lock as grant:
            assert grant.fence == first.fence
            assert lock.held()
            assert not grant.lost
        assert grant.lost
    assert script_calls(admin) - before <= 1  # a renewal


async def test_taking_it_again_costs_a_task_no_call(alw: Lockwork, admin: redis.Redis) -> None:
    lock = alw.lock("x", sticky=True)
    async with lock as first:
        pass
    before = script_calls(admin)
    for _ in range(100):
        async with lock as grant:
            assert grant.fence == first.fence
    assert script_calls(admin) - before <= 1


def test_another_thread_reuses_the_cached_lock(lw: Lockwork, admin: redis.Redis) -> None:
    lock = lw.lock("x", sticky=True)
    with lock as grant:
        pass
    before = script_calls(admin)

    def take() -> int:
        with lock as mine:
            return mine.fence

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(take).result() == grant.fence
    assert script_calls(admin) - before <= 1


def test_sticky_lock_is_reentrant(lw: Lockwork) -> None:
    lock = lw.lock("x", sticky=True)
    for _ in range(2):
        with lock as outer:
            with lock as inner:
                assert inner is outer
                assert inner.depth == 2
            assert lock.held()
        assert not lock.held()
        with pytest.raises(NotHeld):
            lock.release()


def test_threads_of_one_process_exclude_each_other(lw: Lockwork) -> None:
    lock = lw.lock("x", sticky=True)
    with lock, ThreadPoolExecutor(1) as pool:
        assert pool.submit(lock.try_acquire).result() is None
        with pytest.raises(LockTimeout):
            pool.submit(lock.acquire, 0.05).result()
        waiting = pool.submit(lambda: lock.acquire().release())
        until(lambda: lock.inspect().waiters, "it waits")
        assert not waiting.done()
        lock.release()
        waiting.result()
        lock.acquire()


async def test_tasks_of_one_process_exclude_each_other(alw: Lockwork) -> None:
    lock = alw.lock("x", sticky=True)
    inside = most = turns = 0

    async def turn() -> None:
        nonlocal inside, most, turns
        for _ in range(5):
            async with lock:
                inside += 1
                most = max(most, inside)
                turns += 1
                await asyncio.sleep(0)
                inside -= 1

    await asyncio.gather(*(turn() for _ in range(10)))
    assert (most, turns) == (1, 50)


def test_plain_handle_shares_the_grant_of_a_sticky_handle(lw: Lockwork) -> None:
    with lw.lock("x", sticky=True) as grant:
        with lw.lock("x") as again:
            assert again is grant
    with lw.lock("x", wait=SOON) as plain:
        assert plain.fence > grant.fence
    assert not lw.lock("x").locked()
    with lw.lock("x", sticky=True):
        pass
    assert lw.lock("x").locked()


@pytest.mark.parametrize("options", [{"lease": 5}, {"at_least": 5}, {"lease": 5, "at_least": 1}])
def test_sticky_refuses_wrong_options(lw: Lockwork, options: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match="sticky lock"):
        lw.lock("x", sticky=True, **options)  # type: ignore[arg-type]


async def test_blocking_call_on_a_sticky_lock_in_the_loop_is_refused(alw: Lockwork) -> None:
    lock = alw.lock("x", sticky=True)
    async with lock:
        pass
    with pytest.raises(BlockingCallError):
        lock.acquire()
    async with lock as grant:
        for call in (lock.release, grant.release, lock.release_all):
            with pytest.raises(BlockingCallError):
                call()
        assert lock.held()
        assert grant.depth == 1
