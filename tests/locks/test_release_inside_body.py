"""A body may release its lock and acquire it again; its end releases only the current grant."""

from __future__ import annotations

import asyncio

import pytest
import redis

from lockwork import LockLost, Lockwork, NotHeld


def test_released_inside(lw: Lockwork) -> None:
    lock = lw.lock("x")
    with lock as grant:
        grant.release()
        assert not lock.locked()
        assert grant.lost
        with pytest.raises(NotHeld):
            lock.release()
    with lock:
        lock.release()
        assert not lock.locked()
    assert not lw.runtime.holds


async def test_released_inside_by_a_task(alw: Lockwork) -> None:
    lock = alw.lock("x")
    async with lock as grant:
        await grant.arelease()
        assert not await lock.alocked()
    async with lock:
        await lock.arelease()
    assert not alw.runtime.holds


def test_released_and_taken_again(lw: Lockwork) -> None:
    lock = lw.lock("x")
    with lock as first:
        lock.release()
        second = lock.acquire()
        assert second.fence > first.fence
        assert not second.lost
    assert not lock.locked()
    assert not lw.runtime.holds


def test_released_and_entered_again_inside(lw: Lockwork) -> None:
    lock = lw.lock("x")
    with lock as first:
        first.release()
        with lock as second:
            assert second.fence > first.fence
            assert lock.locked()
        assert not lock.locked()
    assert not lw.runtime.holds
    with lock:
        assert lock.held()
    assert not lock.locked()


async def test_released_and_entered_again_inside_by_a_task(alw: Lockwork) -> None:
    lock = alw.lock("x")
    async with lock as first:
        await first.arelease()
        async with lock as second:
            assert second.fence > first.fence
        assert not await lock.alocked()
    assert not alw.runtime.holds


async def test_second_grant_of_a_body_is_lost(alw: Lockwork, admin: redis.Redis) -> None:
    """The outer body has released its own grant, so the loss ends only the inner body."""
    lock = alw.lock("x")
    ended = []
    async with lock as first:
        await first.arelease()
        with pytest.raises(LockLost):
            async with lock:
                admin.delete("lw:{lock:x}")
        ended.append("inner")
        await asyncio.sleep(0)
    assert ended == ["inner"]


def test_inner_body_releases_the_lock_of_both_bodies(lw: Lockwork) -> None:
    lock = lw.lock("x")
    with lock as outer, lock as inner:
        assert inner is outer
        inner.release()
        assert not lock.locked()
    assert not lw.runtime.holds


def test_release_in_the_inner_body_keeps_the_outer_entry(lw: Lockwork) -> None:
    """Two entries and one explicit release leave one entry, which the end of the inner body releases."""
    lock = lw.lock("x")
    with lock:
        with lock:
            lock.release()
            assert lock.held()
        assert not lock.held()
    assert not lock.locked()
    assert not lw.runtime.holds


def test_release_inside_does_not_mask_the_bodys_error(lw: Lockwork) -> None:
    with pytest.raises(KeyError, match="mine"), lw.lock("x") as grant:
        grant.release()
        raise KeyError("mine")


def test_grant_is_a_context_manager(lw: Lockwork) -> None:
    lock = lw.lock("x")
    with lock.acquire() as grant:
        assert not grant.lost
        assert lock.held()
    assert not lock.locked()
    taken = lock.try_acquire()
    assert taken is not None
    with taken:
        assert lock.locked()
    assert not lock.locked()


async def test_grant_is_an_async_context_manager(alw: Lockwork) -> None:
    lock = alw.lock("x")
    async with await lock.aacquire() as grant:
        assert not grant.lost
    assert not await lock.alocked()


def test_grant_context_releases_all_entries(lw: Lockwork) -> None:
    lock = lw.lock("x")
    with lock.acquire():
        lock.acquire()
    assert not lock.held()
    assert not lock.locked()


def test_lost_grant_raises_at_end_of_body(lw: Lockwork, admin: redis.Redis) -> None:
    with pytest.raises(LockLost), lw.lock("x").acquire():
        admin.delete("lw:{lock:x}")
    with pytest.raises(KeyError), lw.lock("x").acquire():
        admin.delete("lw:{lock:x}")
        raise KeyError


def test_released_grant_does_not_mask_an_error_of_its_body(lw: Lockwork) -> None:
    with pytest.raises(KeyError, match="mine"), lw.lock("x").acquire() as grant:
        grant.release()
        raise KeyError("mine")


def test_body_of_a_released_grant_ends_quietly(lw: Lockwork) -> None:
    with lw.lock("x").acquire() as grant:
        grant.release()
    assert not lw.lock("x").locked()


async def test_async_body_of_a_released_grant_ends_quietly(alw: Lockwork) -> None:
    async with await alw.lock("x").aacquire() as grant:
        await grant.arelease()
    with pytest.raises(KeyError):
        async with await alw.lock("x").aacquire() as grant:
            await grant.arelease()
            raise KeyError
