"""Owners of locks: a thread or an asyncio task, which may acquire again."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis

from lockwork import LockTimeout, Lockwork, NotHeld
from lockwork.errors import BlockingCallError


def test_thread_releases_a_reentered_lock_once_per_acquire(lw: Lockwork) -> None:
    lock = lw.lock("x")
    with lock as outer:
        with lw.lock("x") as inner:
            assert inner is outer
            assert inner.depth == 2
        assert lock.held()
        assert lock.inspect().owner is not None
        assert not outer.lost
    assert not lock.held()
    assert lock.inspect().owner is None
    assert outer.lost


async def test_asyncio_task_releases_a_reentered_lock_once_per_acquire(alw: Lockwork) -> None:
    lock = alw.lock("x")
    async with lock as outer:
        async with alw.lock("x", wait=0) as inner:
            assert inner is outer
        assert (await lock.ainspect()).owner is not None
    assert (await lock.ainspect()).owner is None


def test_thread_started_by_a_holder_holds_no_lock(lw: Lockwork) -> None:
    lock = lw.lock("x")

    def child() -> None:
        assert not lock.held()
        with pytest.raises(LockTimeout):
            lock.acquire(wait=0)
        with pytest.raises(NotHeld, match="lock 'x' is not held by this thread or task"):
            lock.release()

    with lock, ThreadPoolExecutor(1) as pool:
        pool.submit(child).result()
        assert lock.held()


async def test_asyncio_task_started_by_a_holder_holds_no_lock(alw: Lockwork) -> None:
    lock = alw.lock("x")

    async def child() -> None:
        assert not lock.held()
        with pytest.raises(LockTimeout):
            await lock.aacquire(wait=0)
        with pytest.raises(NotHeld):
            await lock.arelease()

    async with lock:
        await asyncio.create_task(child())
        await asyncio.gather(child(), child())
        await asyncio.to_thread(lambda: pytest.raises(NotHeld, lock.release))  # noqa: RUF061 - in another thread
        assert lock.held()


def test_release_by_another_caller_is_refused(lw: Lockwork, url: str) -> None:
    with lw.lock("x") as grant, Lockwork(url) as other:
        with pytest.raises(NotHeld):
            other.lock("x").release()
        state = other.lock("x").inspect()
        assert (state.fence, state.waiters) == (grant.fence, 0)


def test_release_of_a_released_lock_is_refused(lw: Lockwork) -> None:
    lock = lw.lock("x")
    lock.acquire()
    lock.release()
    with pytest.raises(NotHeld):
        lock.release()


def test_apps_of_one_process_are_different_owners(lw: Lockwork, url: str) -> None:
    with Lockwork(url) as other, lw.lock("x"), pytest.raises(LockTimeout):
        other.lock("x").acquire(wait=0)


def test_apps_with_different_prefixes_do_not_meet(lw: Lockwork, url: str) -> None:
    with Lockwork(url, prefix="other") as other, lw.lock("x"), other.lock("x", wait=0) as grant:
        assert not grant.lost


async def test_with_and_async_with_on_one_handle(alw: Lockwork) -> None:
    lock = alw.lock("x")

    def blocking() -> int:
        with lock as grant:
            return grant.fence

    async with lock as first:
        pass
    second = await asyncio.to_thread(blocking)
    async with lock as third:
        pass
    assert first.fence < second < third.fence


async def test_blocking_call_on_the_loop_thread_is_an_error(alw: Lockwork) -> None:
    lock = alw.lock("x")
    for call in (lock.acquire, lock.try_acquire, lock.inspect, lock.__enter__):
        with pytest.raises(BlockingCallError, match="await the async version"):
            call()
    assert not lock.held()
    assert (await lock.ainspect()).owner is None
    async with lock:
        with pytest.raises(BlockingCallError):
            lock.release()
        assert lock.held()


def test_try_acquire(lw: Lockwork) -> None:
    taken = lw.lock("x").try_acquire()
    assert taken is not None
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(lw.lock("x").try_acquire).result() is None
    lw.lock("x").release()


async def test_atry_acquire(alw: Lockwork) -> None:
    assert await alw.lock("x").atry_acquire() is not None
    assert await asyncio.create_task(alw.lock("x").atry_acquire()) is None
    await alw.lock("x").arelease()


def test_fence_rises_with_every_grant_even_after_the_key_is_deleted(lw: Lockwork, admin: redis.Redis) -> None:
    fences = []
    for round in range(6):
        with lw.lock("x") as grant:
            fences.append(grant.fence)
        if round % 2:
            admin.flushall()
    assert fences == sorted(set(fences))


def test_threads_that_come_and_go_are_different_owners(lw: Lockwork) -> None:
    """A new thread may get the identifier of an ended thread."""
    owners = set()

    def hold() -> None:
        lw.lock("x").acquire()
        owners.add(lw.lock("x").inspect().owner)
        lw.lock("x").release()

    for _ in range(5):
        thread = threading.Thread(target=hold)
        thread.start()
        thread.join()
    assert len(owners) == 5
