"""A multilock that is cancelled at any turn of the event loop, while it receives its locks, leaves all locks free."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import redis

from cancelling import auntil, nothing_here, swept
from lockwork import Lockwork
from lockwork.locks.multilock import MultiLock

NAMES = ("a", "b", "c")


@pytest.fixture
async def rival(url: str, admin: redis.Redis) -> AsyncIterator[Lockwork]:
    """Another app, as another process would be."""
    async with Lockwork(url) as app:
        yield app


@pytest.fixture(params=["one script", "by slot"])
def mine(request: pytest.FixtureRequest, alw: Lockwork) -> MultiLock:
    """Return a multilock, as for a single server, or as for a Cluster where each key has another slot."""
    made = alw.multilock(*NAMES, lease="1h")
    made._by_slot = request.param == "by slot"
    return made


async def free(rival: Lockwork, but: str, where: str) -> None:
    for name in NAMES:
        state = await rival.lock(name).ainspect()
        assert state.waiters == 0, f"{where}: it waits for {name}"
        assert name == but or state.owner is None, f"{where}: {name} is held by {state.owner}"


@pytest.mark.parametrize("busy", NAMES)
async def test_multilock_cancelled_during_a_grant_leaves_its_locks_free(
    alw: Lockwork, rival: Lockwork, mine: MultiLock, busy: str
) -> None:
    other = rival.lock(busy)

    async def block() -> None:
        async with mine:
            await asyncio.sleep(0)

    async def comes() -> None:
        async def waits() -> bool:
            return (await other.ainspect()).waiters > 0

        await auntil(waits, "it waits")
        await other.arelease()

    async def clean(where: str) -> None:
        await free(rival, "", where)
        nothing_here(alw, where)
        await other.aacquire()

    await other.aacquire()
    sweep = await swept(block, clean, ready=comes, most=400)
    await other.arelease()
    assert sweep.ended
    assert sweep.finished


async def test_cancelled_multilock_keeps_a_lock_that_was_held_before(
    alw: Lockwork, rival: Lockwork, mine: MultiLock
) -> None:
    """The task still holds its earlier lock, with the same entry count."""

    async def block() -> None:
        async with alw.lock("a"):
            try:
                async with mine:
                    await asyncio.sleep(0)
            finally:
                assert alw.lock("a").held()
                await asyncio.sleep(0)

    async def clean(where: str) -> None:
        await free(rival, "", where)
        nothing_here(alw, where)

    await alw.lock("warm").ainspect()
    sweep = await swept(block, clean)
    assert sweep.ended > 5
    assert sweep.finished
