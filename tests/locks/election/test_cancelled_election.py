"""Cancelled at any turn of the loop, a candidate leaves neither the leadership nor a place in line behind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import redis

from cancelling import auntil, nothing_here, swept
from lockwork import Lockwork
from lockwork.locks.grant import Grant


@pytest.fixture
async def rival(url: str, admin: redis.Redis) -> AsyncIterator[Lockwork]:
    """Another app, as another process would be."""
    async with Lockwork(url) as app:
        yield app


class Calls:
    """Callbacks of a candidate, which must alternate."""

    def __init__(self) -> None:
        self.leads = False

    async def gain(self, grant: Grant) -> None:
        assert not self.leads
        self.leads = True
        await asyncio.sleep(0)

    async def loss(self, grant: Grant) -> None:
        await asyncio.sleep(0)
        assert self.leads or grant.lost
        self.leads = False


async def over(app: Lockwork, where: str) -> None:
    """Wait for the end of the campaign."""

    async def ended() -> bool:
        return not [task for task in asyncio.all_tasks() if task.get_name().startswith("election-")]

    await auntil(ended, f"{where}: the campaign has ended")
    nothing_here(app, where)


async def test_cancelled_leader_leaves_the_lock_free(alw: Lockwork, rival: Lockwork) -> None:
    calls = Calls()
    await alw.lock("warm").ainspect()

    async def lead() -> None:
        async with alw.election("boss", on_gain=calls.gain, on_loss=calls.loss) as election:
            assert await election.await_()
            await asyncio.sleep(0)

    async def clean(where: str) -> None:
        await over(alw, where)
        assert not calls.leads, where
        state = await rival.lock("election:boss").ainspect()
        assert (state.owner, state.waiters) == (None, 0), where

    sweep = await swept(lead, clean)
    assert sweep.ended > 5
    assert sweep.finished


async def test_cancelled_resignation_leaves_the_lock_free(alw: Lockwork, rival: Lockwork) -> None:
    async def resign() -> None:
        async with alw.election("boss") as election:
            assert await election.await_()
            assert await election.aresign()

    async def clean(where: str) -> None:
        await over(alw, where)
        state = await rival.lock("election:boss").ainspect()
        assert (state.owner, state.waiters) == (None, 0), where

    await alw.lock("warm").ainspect()
    assert (await swept(resign, clean)).ended > 5


async def test_cancelled_candidate_leaves_no_waiter(alw: Lockwork, rival: Lockwork) -> None:
    async def stand() -> None:
        async with alw.election("boss") as election:
            await election.await_()

    async def clean(where: str) -> None:
        await over(alw, where)
        assert (await rival.lock("election:boss").ainspect()).waiters == 0, where

    await alw.lock("warm").ainspect()
    async with rival.lock("election:boss"):
        assert (await swept(stand, clean, most=40)).ended == 40


async def test_candidate_cancelled_on_its_promotion_leaves_the_lock_free(alw: Lockwork, rival: Lockwork) -> None:
    calls = Calls()
    lock = rival.lock("election:boss")

    async def stand() -> None:
        async with alw.election("boss", on_gain=calls.gain, on_loss=calls.loss) as election:
            assert await election.await_()

    async def resigned() -> None:
        async def waits() -> bool:
            return (await lock.ainspect()).waiters > 0

        await auntil(waits, "it waits")
        await lock.arelease()

    async def clean(where: str) -> None:
        await over(alw, where)
        assert not calls.leads, where
        assert await lock.atry_acquire() is not None, where

    await lock.aacquire()
    sweep = await swept(stand, clean, ready=resigned, most=400)
    await lock.arelease()
    assert sweep.ended
    assert sweep.finished
