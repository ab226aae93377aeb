"""Readers and writers cancelled at any turn of the event loop leave no grant; a downgrade is complete or not begun."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial

import pytest
import redis

from cancelling import auntil, nothing_here, swept
from lockwork import Lockwork


@pytest.fixture
async def rival(url: str, admin: redis.Redis) -> AsyncIterator[Lockwork]:
    """Another app, as another process would be."""
    async with Lockwork(url) as app:
        yield app


async def free(rival: Lockwork, alw: Lockwork, where: str) -> None:
    state = await rival.rwlock("x").ainspect()
    assert (state.writer, state.readers, state.waiting) == (None, 0, 0), where
    nothing_here(alw, where)


async def test_cancelled_downgrade_leaves_the_lock_free(alw: Lockwork, rival: Lockwork) -> None:
    async def block() -> None:
        async with alw.rwlock("x", lease="1h").write() as grant:
            await grant.adowngrade()

    await alw.lock("warm").ainspect()
    sweep = await swept(block, partial(free, rival, alw))
    assert sweep.ended > 4
    assert sweep.finished


async def test_cancelled_writer_with_a_read_grant_leaves_the_lock_free(alw: Lockwork, rival: Lockwork) -> None:
    """The writer leaves the writing side first, which is a downgrade, too."""

    async def block() -> None:
        lock = alw.rwlock("x", lease="1h")
        await lock.write().aacquire()
        try:
            async with lock.read():
                await lock.write().arelease()
        finally:
            if lock.write().held():
                await lock.write().arelease()

    await alw.lock("warm").ainspect()
    sweep = await swept(block, partial(free, rival, alw))
    assert sweep.ended > 4
    assert sweep.finished


@pytest.mark.parametrize("reads", [False, True], ids=["write", "read"])
async def test_cancelled_acquire_leaves_no_waiter(alw: Lockwork, rival: Lockwork, *, reads: bool) -> None:
    lock = alw.rwlock("x", lease="1h")
    side = lock.read() if reads else lock.write()

    async def clean(where: str) -> None:
        assert (await rival.rwlock("x").ainspect()).waiting == 0, where
        nothing_here(alw, where)

    await alw.lock("warm").ainspect()
    async with rival.rwlock("x").write():
        assert (await swept(side.aacquire, clean, most=40)).ended == 40


@pytest.mark.parametrize("reads", [False, True], ids=["write", "read"])
async def test_waiter_cancelled_after_its_grant_leaves_the_lock_free(
    alw: Lockwork, rival: Lockwork, *, reads: bool
) -> None:
    lock, other = alw.rwlock("x", lease="1h"), rival.rwlock("x")
    side = lock.read() if reads else lock.write()

    async def take() -> None:
        async with side:
            await asyncio.sleep(0)

    async def comes() -> None:
        async def waits() -> bool:
            return (await other.ainspect()).waiting > 0

        await auntil(waits, "it waits")
        await other.write().arelease()

    async def clean(where: str) -> None:
        await free(rival, alw, where)
        await other.write().aacquire()

    await other.write().aacquire()
    sweep = await swept(take, clean, ready=comes, most=400)
    await other.write().arelease()
    assert sweep.ended
    assert sweep.finished
