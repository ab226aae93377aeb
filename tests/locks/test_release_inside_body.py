"""A body may give its lock up before it ends, and take it again: its end releases what it still has, and no more."""

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


async def test_the_second_grant_of_a_body_is_lost(alw: Lockwork, admin: redis.Redis) -> None:
    """The outer body gave its own up: what ends is the inner one's body."""
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


def test_two_bodies_and_one_gives_everything_up(lw: Lockwork) -> None:
    lock = lw.lock("x")
    with lock as outer, lock as inner:
        assert inner is outer
        inner.release()
        assert not lock.locked()
    assert not lw.runtime.holds


def test_a_plain_release_in_the_inner_of_two_bodies(lw: Lockwork) -> None:
    """The bodies entered twice and the code released once: one entry is left, which the inner end takes."""
    lock = lw.lock("x")
    with lock:
        with lock:
            lock.release()
            assert lock.held()
        assert not lock.held()
    assert not lock.locked()
    assert not lw.runtime.holds


def test_the_bodys_error_is_not_masked(lw: Lockwork) -> None:
    with pytest.raises(KeyError, match="mine"), lw.lock("x") as grant:
        grant.release()
        raise KeyError("mine")


def test_a_grant_holds_a_body(lw: Lockwork) -> None:
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


async def test_a_grant_holds_the_body_of_a_task(alw: Lockwork) -> None:
    lock = alw.lock("x")
    async with await lock.aacquire() as grant:
        assert not grant.lost
    assert not await lock.alocked()


def test_a_grant_that_was_entered_twice_is_released_whole(lw: Lockwork) -> None:
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


def test_an_error_of_a_grants_body_is_not_masked_when_it_was_given_up_inside(lw: Lockwork) -> None:
    with pytest.raises(KeyError, match="mine"), lw.lock("x").acquire() as grant:
        grant.release()
        raise KeyError("mine")


def test_a_grants_body_that_gave_it_up_ends_quietly_like_a_handles(lw: Lockwork) -> None:
    with lw.lock("x").acquire() as grant:
        grant.release()
    assert not lw.lock("x").locked()


async def test_a_grants_body_of_a_task_that_gave_it_up(alw: Lockwork) -> None:
    async with await alw.lock("x").aacquire() as grant:
        await grant.arelease()
    with pytest.raises(KeyError):
        async with await alw.lock("x").aacquire() as grant:
            await grant.arelease()
            raise KeyError
