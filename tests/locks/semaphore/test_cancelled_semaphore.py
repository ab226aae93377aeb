"""A task that is cancelled at any turn of the event loop holds no permits, and waits for no permits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import redis

from cancelling import auntil, nothing_here, swept
from lockwork import Lockwork


@pytest.fixture
async def rival(url: str, admin: redis.Redis) -> AsyncIterator[Lockwork]:
    """Another app, as another process would be."""
    async with Lockwork(url) as app:
        yield app


async def test_permits_and_a_permit_more(alw: Lockwork, rival: Lockwork) -> None:
    """A task that is cancelled with none, one or both of two grants of a semaphore releases its grants."""

    async def block() -> None:
        async with alw.semaphore("x", 3, units=2, lease="1h"), alw.semaphore("x", 3, lease="1h"):
            await asyncio.sleep(0)

    async def clean(where: str) -> None:
        state = await rival.semaphore("x", 3).ainspect()
        assert (state.used, state.waiting) == (0, 0), where
        nothing_here(alw, where)

    await alw.lock("warm").ainspect()
    sweep = await swept(block, clean)
    assert sweep.ended > 5
    assert sweep.finished


async def test_waiter_cancelled_after_its_grant_returns_its_permits(alw: Lockwork, rival: Lockwork) -> None:
    """Another waiter may be next in line, and gets the returned permits."""
    mine, other = alw.semaphore("x", 3, units=2, lease="1h"), rival.semaphore("x", 3)
    behind: list[asyncio.Task[None]] = []

    async def take() -> None:
        async with mine:
            await asyncio.sleep(0)

    async def last() -> None:
        async with rival.semaphore("x", 3, units=2, wait=20):
            pass

    async def comes() -> None:
        async def waits() -> bool:
            return (await other.ainspect()).waiting == len(behind) + 1

        await auntil(waits, "it waits")
        behind.append(asyncio.create_task(last(), name="lockwork-test-behind"))
        await auntil(waits, "another one waits behind it")
        await other.arelease()

    async def clean(where: str) -> None:
        await behind.pop()
        state = await other.ainspect()
        assert (state.used, state.waiting) == (1, 0), where
        nothing_here(alw, where)
        await other.aacquire()

    for _ in range(2):
        await other.aacquire()
    sweep = await swept(take, clean, ready=comes, most=400)
    await other.arelease_all()
    assert sweep.ended
    assert sweep.finished
